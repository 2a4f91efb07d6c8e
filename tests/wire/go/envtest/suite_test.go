package envtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const patience = 60 * time.Second

var (
	testEnv   *envtest.Environment
	cfg       *rest.Config
	k8sClient client.Client
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	testEnv = &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("config", "crd")},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{filepath.Join("config", "webhook")}},
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := time.Now()
	var err error
	if cfg, err = testEnv.Start(); err != nil {
		fmt.Println("start:", err)
		return 1
	}
	fmt.Printf("started in %d ms\n", time.Since(started).Milliseconds())
	stopped, err := startManager(ctx)
	if err != nil {
		fmt.Println("manager:", err)
		return 1
	}
	status := m.Run()
	cancel()
	<-stopped
	began := time.Now()
	if err := testEnv.Stop(); err != nil {
		fmt.Println("stop:", err)
		return 1
	}
	fmt.Printf("stopped in %d ms\n", time.Since(began).Milliseconds())
	return status
}

func startManager(ctx context.Context) (<-chan struct{}, error) {
	if err := SchemeBuilder.AddToScheme(scheme.Scheme); err != nil {
		return nil, err
	}
	var err error
	if k8sClient, err = client.New(cfg, client.Options{Scheme: scheme.Scheme}); err != nil {
		return nil, err
	}
	hook := testEnv.WebhookInstallOptions
	manager, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:  scheme.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: hook.LocalServingHost, Port: hook.LocalServingPort, CertDir: hook.LocalServingCertDir,
		}),
	})
	if err != nil {
		return nil, err
	}
	if err := (&GuestbookReconciler{manager.GetClient()}).SetupWithManager(manager); err != nil {
		return nil, err
	}
	hooks := ctrl.NewWebhookManagedBy(manager, &Guestbook{}).WithDefaulter(GuestbookDefaulter{}).WithValidator(GuestbookValidator{})
	if err := hooks.Complete(); err != nil {
		return nil, err
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := manager.Start(ctx); err != nil {
			fmt.Println("manager ended:", err)
		}
	}()
	return stopped, wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return manager.GetWebhookServer().StartedChecker()(nil) == nil, nil
	})
}

func eventually(t *testing.T, what string, check func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience, true, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func namespace(t *testing.T) string {
	t.Helper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := k8sClient.Create(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	return space.Name
}

func book(namespace, name string) *Guestbook {
	return &Guestbook{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
}

func TestReconcilerMakesAConfigMapAndReportsStatus(t *testing.T) {
	one := book(namespace(t), "a")
	if err := k8sClient.Create(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(one)
	eventually(t, "status", func(ctx context.Context) (bool, error) {
		err := k8sClient.Get(ctx, key, one)
		return one.Status.Entries == 3, err
	})
	var settings corev1.ConfigMap
	if err := k8sClient.Get(t.Context(), key, &settings); err != nil {
		t.Fatal(err)
	}
	if settings.Data["size"] != "3" || !metav1.IsControlledBy(&settings, one) {
		t.Fatalf("ConfigMap: %v %v", settings.Data, settings.OwnerReferences)
	}
	if err := k8sClient.Delete(t.Context(), &settings); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ConfigMap is created again", func(ctx context.Context) (bool, error) {
		err := k8sClient.Get(ctx, key, &settings)
		return err == nil, client.IgnoreNotFound(err)
	})
}

func TestSchemaRefuses(t *testing.T) {
	small := book(namespace(t), "small")
	small.Spec.Size = -1
	if err := k8sClient.Create(t.Context(), small); !apierrors.IsInvalid(err) {
		t.Fatalf("schema: %v", err)
	}
}

func TestWebhookRefuses(t *testing.T) {
	titled := book(namespace(t), "titled")
	titled.Spec.Title = "forbidden"
	err := k8sClient.Create(t.Context(), titled)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may not be used") {
		t.Fatalf("webhook: %v", err)
	}
}

func TestWebhookDefaults(t *testing.T) {
	one := book(namespace(t), "plain")
	if err := k8sClient.Create(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if one.Spec.Title != "untitled" || one.Spec.Size != 3 || one.Labels["defaulted"] != "yes" {
		t.Fatalf("created: %v %v", one.Spec, one.Labels)
	}
	before := one.DeepCopyObject().(client.Object)
	one.Spec.Title = ""
	if err := k8sClient.Patch(t.Context(), one, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if one.Spec.Title != "untitled" {
		t.Fatalf("patched: %v", one.Spec)
	}
}

func TestAddUserMayDoWhatRolesAllow(t *testing.T) {
	space := namespace(t)
	user, err := testEnv.AddUser(envtest.User{Name: "alice", Groups: []string{"readers"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	alice, err := client.New(user.Config(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	var books GuestbookList
	if err := alice.List(t.Context(), &books, client.InNamespace(space)); !apierrors.IsForbidden(err) {
		t.Fatalf("before: %v", err)
	}
	meta := metav1.ObjectMeta{Name: "readers", Namespace: space}
	rule := rbacv1.PolicyRule{APIGroups: []string{GroupVersion.Group}, Resources: []string{"guestbooks"}, Verbs: []string{"get", "list"}}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			Subjects:   []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "readers"}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "readers"},
		},
		book(space, "read"),
	} {
		if err := k8sClient.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "alice lists", func(ctx context.Context) (bool, error) {
		err := alice.List(ctx, &books, client.InNamespace(space))
		return err == nil && len(books.Items) == 1, nil
	})
	if err := alice.Delete(t.Context(), book(space, "read")); !apierrors.IsForbidden(err) {
		t.Fatalf("delete: %v", err)
	}
	kubectl, err := user.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, err := kubectl.Run("get", "guestbooks", "-n", space, "-o", "name")
	if err != nil {
		printed, _ := io.ReadAll(stderr)
		t.Fatalf("kubectl: %v: %s", err, printed)
	}
	if printed, _ := io.ReadAll(stdout); string(printed) != "guestbook.webapp.example.com/read\n" {
		t.Fatalf("kubectl printed %q", printed)
	}
}

func TestGarbageCollectionAndNamespaceDeletion(t *testing.T) {
	if os.Getenv("SUITE_HAS_CONTROLLERS") == "" {
		t.Skip("kube-apiserver alone has no garbage collector and no namespace controller")
	}
	space := namespace(t)
	one := book(space, "gone")
	if err := k8sClient.Create(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(one)
	var settings corev1.ConfigMap
	eventually(t, "the ConfigMap", func(ctx context.Context) (bool, error) {
		err := k8sClient.Get(ctx, key, &settings)
		return err == nil, client.IgnoreNotFound(err)
	})
	if err := k8sClient.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ConfigMap is collected", func(ctx context.Context) (bool, error) {
		err := k8sClient.Get(ctx, key, &settings)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	name := client.ObjectKey{Name: space}
	if err := k8sClient.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is deleted", func(ctx context.Context) (bool, error) {
		err := k8sClient.Get(ctx, name, &corev1.Namespace{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}
