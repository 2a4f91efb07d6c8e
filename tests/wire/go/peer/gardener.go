package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	gardenFinalizer = "green.example.com/compost"
	gardenOwner     = client.FieldOwner("gardener")
	bySoil          = "spec.soil"
)

// gardener keeps for each Garden a ConfigMap that it owns, lends it a rake by server-side apply, says in its status how
// much is planted, and clears up after it.
type gardener struct {
	client.Client
}

func (g *gardener) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&Garden{}).Owns(&corev1.ConfigMap{}).Complete(g)
}

func (g *gardener) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	garden := &Garden{}
	if err := g.Get(ctx, request.NamespacedName, garden); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !garden.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, g.clear(ctx, garden)
	}
	if controllerutil.AddFinalizer(garden, gardenFinalizer) {
		return ctrl.Result{}, retryLater(g.Update(ctx, garden))
	}
	if err := g.plant(ctx, garden); err != nil {
		return ctrl.Result{}, err
	}
	if err := g.lend(ctx, garden); err != nil {
		return ctrl.Result{}, err
	}
	if garden.Status.ObservedGeneration == garden.Generation {
		return ctrl.Result{}, nil
	}
	garden.Status = GardenStatus{Planted: garden.Spec.Beds * 10, ObservedGeneration: garden.Generation}
	return ctrl.Result{}, retryLater(g.Status().Update(ctx, garden))
}

// plant writes the ConfigMap of a Garden.
func (g *gardener) plant(ctx context.Context, garden *Garden) error {
	plan := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: garden.Name, Namespace: garden.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, g.Client, plan, func() error {
		plan.Data = map[string]string{"soil": garden.Spec.Soil, "beds": fmt.Sprint(garden.Spec.Beds)}
		return controllerutil.SetControllerReference(garden, plan, g.Scheme())
	})
	return err
}

// lend applies the one tool that is the gardener's own; what others put into the set stays.
func (g *gardener) lend(ctx context.Context, garden *Garden) error {
	tool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gardenVersion.String(),
		"kind":       "Garden",
		"metadata":   map[string]any{"name": garden.Name, "namespace": garden.Namespace},
		"spec":       map[string]any{"soil": garden.Spec.Soil, "tools": []any{"rake"}},
	}}
	if err := g.Apply(ctx, client.ApplyConfigurationFromUnstructured(tool), gardenOwner); err != nil {
		return err
	}
	garden.ResourceVersion, garden.Generation = tool.GetResourceVersion(), tool.GetGeneration()
	return nil
}

// clear removes what the gardener made, then lets the Garden go.
func (g *gardener) clear(ctx context.Context, garden *Garden) error {
	plan := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: garden.Name, Namespace: garden.Namespace}}
	if err := g.Delete(ctx, plan); client.IgnoreNotFound(err) != nil {
		return err
	}
	if !controllerutil.RemoveFinalizer(garden, gardenFinalizer) {
		return nil
	}
	return client.IgnoreNotFound(retryLater(g.Update(ctx, garden)))
}

// retryLater ignores conflicts: the cache receives the newer object and the Garden is reconciled again.
func retryLater(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
