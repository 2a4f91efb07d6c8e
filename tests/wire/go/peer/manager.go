package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const copies = 5

// mirror maintains a Secret for each ConfigMap that asks for one, owned by it: a typical reconciler.
type mirror struct {
	client.Client
}

// Reconcile makes the Secret of one ConfigMap as it should be and notes on the ConfigMap that it did.
func (m *mirror) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var source corev1.ConfigMap
	if err := m.Get(ctx, request.NamespacedName, &source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.Labels["mirror"] != "yes" {
		return ctrl.Result{}, nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, m.Client, secret, func() error {
		secret.StringData = source.Data
		return controllerutil.SetControllerReference(&source, secret, m.Scheme())
	})
	if err != nil || source.Annotations["mirrored"] == "yes" {
		return ctrl.Result{}, err
	}
	before := source.DeepCopy()
	metav1.SetMetaDataAnnotation(&source.ObjectMeta, "mirrored", "yes")
	return ctrl.Result{}, m.Patch(ctx, &source, client.MergeFrom(before))
}

// runManager runs the reconciler until every ConfigMap has its Secret, also after one is deleted behind its back.
func runManager(ctx context.Context, config *rest.Config, namespace string) error {
	ctrl.SetLogger(logr.Discard())
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:          server.Options{BindAddress: "0"},
		Cache:            cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		LeaderElection:   true,
		LeaderElectionID: "mirror", LeaderElectionNamespace: namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(&mirror{manager.GetClient()})
	if err != nil {
		return err
	}
	finished := make(chan error, 1)
	managing, stopManaging := context.WithCancel(ctx)
	defer stopManaging()
	go func() { finished <- manager.Start(managing) }()
	direct, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	if err := exercise(ctx, direct, namespace); err != nil {
		return err
	}
	stopManaging()
	return <-finished
}

func exercise(ctx context.Context, direct client.Client, namespace string) error {
	for i := range copies {
		source := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("source-%d", i), Namespace: namespace, Labels: map[string]string{"mirror": "yes"},
			},
			Data: map[string]string{"number": fmt.Sprint(i)},
		}
		if err := direct.Create(ctx, source); err != nil {
			return err
		}
	}
	if err := mirrored(ctx, direct, namespace); err != nil {
		return err
	}
	say("mirrored %d", copies)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "source-0", Namespace: namespace}}
	if err := direct.Delete(ctx, secret); err != nil {
		return err
	}
	if err := mirrored(ctx, direct, namespace); err != nil {
		return err
	}
	say("healed")
	return nil
}

// mirrored waits until every source is noted as done and has a Secret that it owns.
func mirrored(ctx context.Context, direct client.Client, namespace string) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var sources corev1.ConfigMapList
		if err := direct.List(ctx, &sources, client.InNamespace(namespace), client.MatchingLabels{"mirror": "yes"}); err != nil {
			return false, err
		}
		for i := range sources.Items {
			source := &sources.Items[i]
			var secret corev1.Secret
			if err := direct.Get(ctx, client.ObjectKeyFromObject(source), &secret); err != nil {
				return false, client.IgnoreNotFound(err)
			}
			if source.Annotations["mirrored"] != "yes" || !metav1.IsControlledBy(&secret, source) {
				return false, nil
			}
			if string(secret.Data["number"]) != source.Data["number"] {
				return false, nil
			}
		}
		return len(sources.Items) == copies, nil
	})
}
