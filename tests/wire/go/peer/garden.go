package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Garden is a custom kind as operators write them, without the generator: what deepcopy-gen would make is below.
type Garden struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GardenSpec   `json:"spec"`
	Status GardenStatus `json:"status,omitempty"`
}

type GardenSpec struct {
	Soil  string   `json:"soil"`
	Beds  int32    `json:"beds,omitempty"`
	Tools []string `json:"tools,omitempty"`
}

type GardenStatus struct {
	Planted            int32 `json:"planted,omitempty"`
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

type GardenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Garden `json:"items"`
}

var gardenVersion = schema.GroupVersion{Group: "green.example.com", Version: "v1"}

func addGardens(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(gardenVersion, &Garden{}, &GardenList{})
	metav1.AddToGroupVersion(scheme, gardenVersion)
	return nil
}

func (g *Garden) DeepCopyInto(out *Garden) {
	*out = *g
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Tools = slices.Clone(g.Spec.Tools)
}

func (g *Garden) DeepCopy() *Garden {
	out := new(Garden)
	g.DeepCopyInto(out)
	return out
}

func (g *Garden) DeepCopyObject() runtime.Object { return g.DeepCopy() }

func (l *GardenList) DeepCopyObject() runtime.Object {
	out := &GardenList{TypeMeta: l.TypeMeta, Items: make([]Garden, len(l.Items))}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}
