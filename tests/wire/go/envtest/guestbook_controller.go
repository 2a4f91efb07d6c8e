package envtest

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// GuestbookReconciler keeps a ConfigMap for each Guestbook.
type GuestbookReconciler struct {
	client.Client
}

func (r *GuestbookReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var book Guestbook
	if err := r.Get(ctx, req.NamespacedName, &book); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: book.Name, Namespace: book.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, settings, func() error {
		settings.Data = map[string]string{"size": strconv.Itoa(book.Spec.Size)}
		return controllerutil.SetControllerReference(&book, settings, r.Scheme())
	})
	if err != nil || book.Status.Entries == book.Spec.Size {
		return ctrl.Result{}, err
	}
	book.Status.Entries = book.Spec.Size
	return ctrl.Result{}, r.Status().Update(ctx, &book)
}

func (r *GuestbookReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&Guestbook{}).Owns(&corev1.ConfigMap{}).Complete(r)
}

// GuestbookDefaulter gives a title to a book without one, and a label to every book.
type GuestbookDefaulter struct{}

func (GuestbookDefaulter) Default(_ context.Context, book *Guestbook) error {
	if book.Spec.Title == "" {
		book.Spec.Title = "untitled"
	}
	if book.Labels == nil {
		book.Labels = map[string]string{}
	}
	book.Labels["defaulted"] = "yes"
	return nil
}

// GuestbookValidator refuses one title.
type GuestbookValidator struct{}

func (GuestbookValidator) ValidateCreate(_ context.Context, book *Guestbook) (admission.Warnings, error) {
	if book.Spec.Title == "forbidden" {
		return nil, fmt.Errorf("spec.title: %q may not be used", book.Spec.Title)
	}
	return admission.Warnings{"guestbooks are public"}, nil
}

func (v GuestbookValidator) ValidateUpdate(ctx context.Context, _, book *Guestbook) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, book)
}

func (GuestbookValidator) ValidateDelete(context.Context, *Guestbook) (admission.Warnings, error) {
	return nil, nil
}
