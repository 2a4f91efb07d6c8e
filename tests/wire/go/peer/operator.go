package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const gardens = 50

// watchCounter counts how often gardens are listed, by a list or by a watch that begins with one, and watched.
type watchCounter struct {
	next           http.RoundTripper
	lists, watches atomic.Int32
}

func (c *watchCounter) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/gardens") {
		query := request.URL.Query()
		if query.Get("watch") == "true" {
			c.watches.Add(1)
		}
		if query.Get("watch") != "true" || query.Get("sendInitialEvents") == "true" {
			c.lists.Add(1)
		}
	}
	return c.next.RoundTrip(request)
}

// operation is a definition installed, an operator on it running, and a client that reads past every cache.
type operation struct {
	install envtest.CRDInstallOptions
	config  *rest.Config
	manager ctrl.Manager
	direct  client.Client
	counter *watchCounter
	space   client.InNamespace
}

// runOperator installs the definition of $DEFINITION as test environments do, runs the gardener on it and follows fifty
// Gardens through their lives, a change of their schema among it, until the definition is deleted with all of them.
func runOperator(ctx context.Context, config *rest.Config, namespace string) error {
	ctrl.SetLogger(logr.Discard())
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	o, err := newOperation(config, namespace)
	if err != nil {
		return err
	}
	managing, stopManaging := context.WithCancel(ctx)
	defer stopManaging()
	finished := make(chan error, 1)
	go func() { finished <- o.manager.Start(managing) }()
	for _, step := range []func(context.Context) error{o.grow, o.find, o.heal, o.changeSchema, o.clear, o.uninstall} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	stopManaging()
	return <-finished
}

func newOperation(config *rest.Config, namespace string) (*operation, error) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, addGardens} {
		utilruntime.Must(add(known))
	}
	o := &operation{
		config:  config,
		install: envtest.CRDInstallOptions{Paths: []string{os.Getenv("DEFINITION")}, ErrorIfPathMissing: true},
		counter: &watchCounter{},
		space:   client.InNamespace(namespace),
	}
	installed, err := envtest.InstallCRDs(config, o.install)
	if err != nil {
		return nil, err
	}
	say("installed %s", installed[0].Name)
	counted := rest.CopyConfig(config)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper { o.counter.next = next; return o.counter })
	o.manager, err = ctrl.NewManager(counted, ctrl.Options{
		Scheme:  known,
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		return nil, err
	}
	soil := func(object client.Object) []string { return []string{object.(*Garden).Spec.Soil} }
	if err := o.manager.GetFieldIndexer().IndexField(context.Background(), &Garden{}, bySoil, soil); err != nil {
		return nil, err
	}
	if err := (&gardener{o.manager.GetClient()}).SetupWithManager(o.manager); err != nil {
		return nil, err
	}
	o.direct, err = client.New(config, client.Options{Scheme: known})
	return o, err
}

// grow creates the Gardens and waits until each is tended.
func (o *operation) grow(ctx context.Context) error {
	for i := range gardens {
		garden := &Garden{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("garden-%d", i), Namespace: string(o.space)},
			Spec:       GardenSpec{Soil: []string{"clay", "sand"}[i%2], Tools: []string{"spade"}},
		}
		if err := o.direct.Create(ctx, garden); err != nil {
			return err
		}
		if garden.Spec.Beds != 2 {
			return fmt.Errorf("a new garden has %d beds", garden.Spec.Beds)
		}
	}
	err := o.until(ctx, func(garden *Garden) bool {
		tools := garden.Spec.Tools
		both := len(tools) == 2 && slices.Contains(tools, "spade") && slices.Contains(tools, "rake")
		return both && garden.Status.Planted == 20
	})
	if err == nil {
		say("tended %d", gardens)
	}
	return err
}

// find asks the operator's own cache by its index.
func (o *operation) find(ctx context.Context) error {
	var found GardenList
	if err := o.manager.GetClient().List(ctx, &found, o.space, client.MatchingFields{bySoil: "clay"}); err != nil {
		return err
	}
	say("on clay %d", len(found.Items))
	wrong := &Garden{
		ObjectMeta: metav1.ObjectMeta{Name: "wrong", Namespace: string(o.space)},
		Spec:       GardenSpec{Soil: "rock", Beds: -1},
	}
	err := o.direct.Create(ctx, wrong)
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("a garden on rock: %v", err)
	}
	say("invalid %d", len(err.(apierrors.APIStatus).Status().Details.Causes))
	return nil
}

// heal removes a ConfigMap behind the gardener's back.
func (o *operation) heal(ctx context.Context) error {
	plan := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "garden-7", Namespace: string(o.space)}}
	if err := o.direct.Delete(ctx, plan); err != nil {
		return err
	}
	if err := o.until(ctx, func(*Garden) bool { return true }); err != nil {
		return err
	}
	say("healed")
	return nil
}

// changeSchema allows fewer beds while everything runs. The watches end and go on where they were: what is written
// afterwards arrives, and nothing was listed again.
func (o *operation) changeSchema(ctx context.Context) error {
	lists, watches := o.counter.lists.Load(), o.counter.watches.Load()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := o.direct.Get(ctx, client.ObjectKey{Name: "gardens." + gardenVersion.Group}, definition); err != nil {
		return err
	}
	before := definition.DeepCopy()
	beds := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	few := beds["beds"]
	few.Maximum = new(float64)
	*few.Maximum = 4
	beds["beds"] = few
	if err := o.direct.Patch(ctx, definition, client.MergeFrom(before)); err != nil {
		return err
	}
	if err := o.resize(ctx, 5); !apierrors.IsInvalid(err) {
		return fmt.Errorf("five beds: %v", err)
	}
	if err := o.resize(ctx, 4); err != nil {
		return err
	}
	if err := o.until(ctx, func(garden *Garden) bool { return garden.Status.Planted == 40 }); err != nil {
		return err
	}
	say("watched again %t, listed again %d", o.counter.watches.Load() > watches, o.counter.lists.Load()-lists)
	return nil
}

// resize gives every Garden a number of beds.
func (o *operation) resize(ctx context.Context, beds int32) error {
	var all GardenList
	if err := o.direct.List(ctx, &all, o.space); err != nil {
		return err
	}
	for i := range all.Items {
		garden := &all.Items[i]
		before := garden.DeepCopy()
		garden.Spec.Beds = beds
		if err := o.direct.Patch(ctx, garden, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

// clear deletes some Gardens; each is deleted once the gardener removed its finalizer, and leaves nothing behind.
func (o *operation) clear(ctx context.Context) error {
	for i := range 10 {
		garden := &Garden{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("garden-%d", i), Namespace: string(o.space)}}
		if err := o.direct.Delete(ctx, garden); err != nil {
			return err
		}
	}
	return o.left(ctx, gardens-10)
}

// left waits until so many Gardens, each with its ConfigMap, are left.
func (o *operation) left(ctx context.Context, expected int) error {
	err := o.poll(ctx, func(ctx context.Context) (bool, error) {
		var found GardenList
		var plans corev1.ConfigMapList
		if err := o.direct.List(ctx, &plans, o.space); err != nil {
			return false, err
		}
		planned := 0
		for i := range plans.Items {
			if metav1.GetControllerOf(&plans.Items[i]) != nil {
				planned++
			}
		}
		if err := o.direct.List(ctx, &found, o.space); err != nil {
			return expected == 0 && planned == 0 && apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		return len(found.Items) == expected && planned == expected, nil
	})
	if err == nil {
		say("left %d", expected)
	}
	return err
}

// uninstall deletes the definition while the gardener still works: it lets every Garden go, then the definition goes.
func (o *operation) uninstall(ctx context.Context) error {
	if err := envtest.UninstallCRDs(o.config, o.install); err != nil {
		return err
	}
	if err := o.left(ctx, 0); err != nil {
		return err
	}
	err := o.poll(ctx, func(ctx context.Context) (bool, error) {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		err := o.direct.Get(ctx, client.ObjectKey{Name: "gardens." + gardenVersion.Group}, definition)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err == nil {
		say("uninstalled")
	}
	return err
}

// until waits until every Garden is as it should be, seen by the gardener in its latest generation, and has its ConfigMap.
func (o *operation) until(ctx context.Context, reached func(*Garden) bool) error {
	return o.poll(ctx, func(ctx context.Context) (bool, error) {
		var all GardenList
		if err := o.direct.List(ctx, &all, o.space); err != nil {
			return false, err
		}
		for i := range all.Items {
			garden := &all.Items[i]
			var plan corev1.ConfigMap
			if err := o.direct.Get(ctx, client.ObjectKeyFromObject(garden), &plan); err != nil {
				return false, client.IgnoreNotFound(err)
			}
			tended := garden.Status.ObservedGeneration == garden.Generation && metav1.IsControlledBy(&plan, garden)
			if !tended || plan.Data["beds"] != fmt.Sprint(garden.Spec.Beds) || !reached(garden) {
				return false, nil
			}
		}
		return len(all.Items) == gardens, nil
	})
}

func (o *operation) poll(ctx context.Context, reached wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, reached)
}
