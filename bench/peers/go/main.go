// Command with_controller_runtime follows the Pods of a namespace with controller-runtime, as its users set it up: a
// manager with one controller, whose reconciler reads each object from the cache. It says what bench/peers/tally.py
// says, and is told the same.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	if err := follow(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type reader struct {
	client.Client
	tally *tally
}

// Reconcile reads one annotation of the Pod.
func (r *reader) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := r.Get(ctx, request.NamespacedName, &pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, r.tally.reconciled(request.Name, pod.Annotations[stamp])
}

func follow(ctx context.Context) error {
	tally, err := newTally(os.Args[1:])
	if err != nil {
		return err
	}
	ctrl.SetLogger(logr.Discard())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		return err
	}
	pods := &reader{Client: manager.GetClient(), tally: tally}
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.Pod{}).Complete(pods); err != nil {
		return err
	}
	if err := tally.waitForStart(os.Stdin); err != nil {
		return err
	}
	go saySynced(ctx, manager.GetCache(), tally)
	return manager.Start(ctx)
}

// saySynced waits for the cache without polling, which would make it look slower than it is.
func saySynced(ctx context.Context, pods cache.Cache, tally *tally) {
	informer, err := pods.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	<-informer.HasSyncedChecker().Done()
	tally.synced()
}
