package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"k8s.io/client-go/kubernetes/scheme"
)

type protobufCase struct {
	Name     string          `json:"name"`
	Protobuf []byte          `json:"protobuf"`
	JSON     json.RawMessage `json:"json"`
}

// filled are the kinds of which the committed corpus has one object with every field set.
var filled = []string{
	"v1/Pod", "v1/Service", "v1/Secret", "v1/ConfigMap", "v1/Node", "v1/Namespace", "v1/PersistentVolume", "v1/Event",
	"v1/ServiceAccount", "v1/ResourceQuota", "v1/LimitRange", "v1/Binding", "v1/DeleteOptions", "v1/Status",
	"apps/v1/Deployment", "apps/v1/StatefulSet", "apps/v1/DaemonSet", "apps/v1/ControllerRevision", "batch/v1/CronJob",
	"autoscaling/v2/HorizontalPodAutoscaler", "autoscaling/v1/Scale", "policy/v1/Eviction",
	"policy/v1/PodDisruptionBudget", "rbac.authorization.k8s.io/v1/ClusterRole",
	"rbac.authorization.k8s.io/v1/RoleBinding", "authentication.k8s.io/v1/TokenRequest",
	"authentication.k8s.io/v1/TokenReview", "authorization.k8s.io/v1/SubjectAccessReview",
	"authorization.k8s.io/v1/SelfSubjectRulesReview", "networking.k8s.io/v1/Ingress",
	"networking.k8s.io/v1/NetworkPolicy", "coordination.k8s.io/v1/Lease", "discovery.k8s.io/v1/EndpointSlice",
	"events.k8s.io/v1/Event", "certificates.k8s.io/v1/CertificateSigningRequest", "scheduling.k8s.io/v1/PriorityClass",
	"storage.k8s.io/v1/StorageClass", "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration",
	"admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy", "flowcontrol.apiserver.k8s.io/v1/FlowSchema",
	"resource.k8s.io/v1/ResourceClaim", "apiextensions.k8s.io/v1/CustomResourceDefinition",
	"apiregistration.k8s.io/v1/APIService",
}

func protobufCorpus(everything bool) []section {
	must(apiextensions.AddToScheme(scheme.Scheme))
	must(aggregation.AddToScheme(scheme.Scheme))
	cases := []any{}
	for _, gvk := range kinds() {
		name := gvk.GroupVersion().String() + "/" + gvk.Kind
		if everything && gvk.Version != runtime.APIVersionInternal && gvk.Kind != "WatchEvent" || slices.Contains(filled, name) {
			for _, made := range []struct {
				how  string
				fill func(reflect.Value)
			}{{"filled", newFiller(!everything).fill}, {"zero", func(reflect.Value) {}}} {
				object, err := scheme.Scheme.New(gvk)
				must(err)
				made.fill(reflect.ValueOf(object).Elem())
				if c, ok := encode(made.how+" "+name, gvk, object); ok {
					cases = append(cases, c)
				}
			}
		}
	}
	for _, manifest := range manifests {
		gvk := gvkOf(manifest)
		object, err := scheme.Scheme.New(gvk)
		must(err)
		must(json.Unmarshal([]byte(manifest), object))
		c, _ := encode("written "+gvk.GroupVersion().String()+"/"+gvk.Kind, gvk, object)
		cases = append(cases, c)
	}
	return []section{{"protobuf", cases}}
}

func kinds() []schema.GroupVersionKind {
	all := []schema.GroupVersionKind{}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		all = append(all, gvk)
	}
	slices.SortFunc(all, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// encode gives the protobuf form of an object and the JSON form of what a server would read from it.
func encode(name string, gvk schema.GroupVersionKind, object runtime.Object) (protobufCase, bool) {
	object.GetObjectKind().SetGroupVersionKind(gvk)
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	var wire bytes.Buffer
	if err := serializer.Encode(object, &wire); err != nil {
		return protobufCase{}, false
	}
	read, _, err := serializer.Decode(wire.Bytes(), nil, nil)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	read.GetObjectKind().SetGroupVersionKind(gvk)
	text, err := json.Marshal(read)
	must(err)
	return protobufCase{name, wire.Bytes(), text}, true
}

func gvkOf(manifest string) schema.GroupVersionKind {
	var meta metav1.TypeMeta
	must(json.Unmarshal([]byte(manifest), &meta))
	return meta.GroupVersionKind()
}

// filler sets every field of an object to something other than zero.
type filler struct {
	next  int64
	short bool
	open  map[reflect.Type]int
}

func newFiller(short bool) *filler { return &filler{short: short, open: map[reflect.Type]int{}} }

func (f *filler) number() int64 {
	f.next++
	return f.next
}

func (f *filler) special(value reflect.Value) bool {
	moment := time.Unix(1_700_000_000+f.number(), 123_456_000).UTC()
	var special any
	switch value.Interface().(type) {
	case metav1.TypeMeta:
		return true
	case metav1.Time:
		special = metav1.NewTime(moment.Truncate(time.Second))
	case metav1.MicroTime:
		special = metav1.NewMicroTime(moment)
	case metav1.Duration:
		special = metav1.Duration{Duration: time.Duration(f.number()) * 1_234_567_891}
	case metav1.FieldsV1:
		var fields metav1.FieldsV1
		fields.SetRawString(`{"f:metadata":{"f:labels":{".":{}}}}`)
		special = fields
	case resource.Quantity:
		special = resource.MustParse(fmt.Sprintf("%dm", f.number()))
	case intstr.IntOrString:
		special = intstr.FromString("25%")
		if f.number()%2 == 0 {
			special = intstr.FromInt32(8080)
		}
	case runtime.RawExtension:
		special = runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Thing","n":1.5,"list":[1,null]}`)}
	case apiextensions.JSON:
		special = apiextensions.JSON{Raw: []byte(`{"a":[1,"x",null]}`)}
	case apiextensions.JSONSchemaPropsOrBool:
		special = apiextensions.JSONSchemaPropsOrBool{Allows: true}
		if f.number()%2 == 0 {
			special = apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensions.JSONSchemaProps{Type: "string"}}
		}
	case apiextensions.JSONSchemaPropsOrArray:
		special = apiextensions.JSONSchemaPropsOrArray{Schema: &apiextensions.JSONSchemaProps{Type: "string"}}
		if f.number()%2 == 0 {
			special = apiextensions.JSONSchemaPropsOrArray{JSONSchemas: []apiextensions.JSONSchemaProps{{Type: "string"}, {}}}
		}
	case apiextensions.JSONSchemaPropsOrStringArray:
		special = apiextensions.JSONSchemaPropsOrStringArray{Property: []string{"a", "b"}}
		if f.number()%2 == 0 {
			special = apiextensions.JSONSchemaPropsOrStringArray{Schema: &apiextensions.JSONSchemaProps{Type: "integer"}}
		}
	default:
		return false
	}
	value.Set(reflect.ValueOf(special))
	return true
}

func (f *filler) fill(value reflect.Value) {
	if value.Kind() == reflect.Struct && (f.special(value) || f.open[value.Type()] > 1) {
		return
	}
	switch value.Kind() {
	case reflect.Struct:
		f.open[value.Type()]++
		for i := range value.NumField() {
			if value.Field(i).CanSet() {
				f.fill(value.Field(i))
			}
		}
		f.open[value.Type()]--
	case reflect.Pointer:
		made := reflect.New(value.Type().Elem())
		f.fill(made.Elem())
		value.Set(made)
	case reflect.Slice:
		f.fillSlice(value)
	case reflect.Map:
		made := reflect.MakeMap(value.Type())
		key, element := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		f.fill(key)
		f.fill(element)
		made.SetMapIndex(key, element)
		value.Set(made)
	case reflect.String:
		value.SetString(fmt.Sprintf("s%d", f.number()))
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		value.SetInt(-f.number() * 1000)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		value.SetUint(uint64(f.number() % 256))
	case reflect.Float64:
		value.SetFloat(float64(f.number()) + 0.25)
	}
}

func (f *filler) fillSlice(value reflect.Value) {
	length := 2
	if f.short && value.Type().Elem().Kind() == reflect.Struct {
		length = 1
	}
	made := reflect.MakeSlice(value.Type(), length, length)
	for i := range length {
		f.fill(made.Index(i))
	}
	value.Set(made)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
