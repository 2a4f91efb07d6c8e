// Package envtest is a small operator and its suite, as kubebuilder lays them out: a kind, a reconciler, a webhook, and
// tests that start a control plane by KUBEBUILDER_ASSETS. Nothing in it knows which one.
package envtest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

type GuestbookSpec struct {
	Size  int    `json:"size,omitempty"`
	Title string `json:"title,omitempty"`
}

type GuestbookStatus struct {
	Entries int `json:"entries,omitempty"`
}

type Guestbook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GuestbookSpec   `json:"spec,omitempty"`
	Status            GuestbookStatus `json:"status,omitempty"`
}

type GuestbookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Guestbook `json:"items"`
}

func (in *Guestbook) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (in *GuestbookList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Guestbook, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopyObject().(*Guestbook)
	}
	return &out
}

var (
	GroupVersion  = schema.GroupVersion{Group: "webapp.example.com", Version: "v1"}
	SchemeBuilder = (&scheme.Builder{GroupVersion: GroupVersion}).Register(&Guestbook{}, &GuestbookList{})
)
