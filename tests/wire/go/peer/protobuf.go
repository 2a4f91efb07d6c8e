package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// runProtobuf writes objects of many shapes as protobuf and compares what comes back with what was sent.
func runProtobuf(ctx context.Context, config *rest.Config, namespace string) error {
	config = rest.CopyConfig(config)
	config.ContentType = protobuf
	config.AcceptContentTypes = protobuf + ",application/json"
	sent := &contentCounter{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { sent.next = next; return sent })
	client, err := clientset(config)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context, *kubernetes.Clientset, string) error{
		writeSecret, writeDeployment, writeCronJob, writeRole, writePod, refuseDuplicate, evictPod,
	} {
		if err := step(ctx, client, namespace); err != nil {
			return err
		}
	}
	if sent.bodies == 0 {
		return errors.New("no body went out as protobuf")
	}
	say("protobuf bodies %d", sent.bodies)
	return nil
}

func writeSecret(ctx context.Context, client *kubernetes.Clientset, namespace string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bytes", Labels: map[string]string{"a": "b"}},
		Data:       map[string][]byte{"all": {0, 1, 2, 253, 254, 255}},
		Type:       corev1.SecretTypeOpaque,
	}
	got, err := client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if string(got.Data["all"]) != string(secret.Data["all"]) || got.UID == "" {
		return fmt.Errorf("secret came back as %v", got)
	}
	got.Data["more"] = []byte("é")
	got, err = client.CoreV1().Secrets(namespace).Update(ctx, got, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if string(got.Data["more"]) != "é" {
		return fmt.Errorf("secret came back as %v", got)
	}
	say("secret ok")
	return nil
}

func writeDeployment(ctx context.Context, client *kubernetes.Clientset, namespace string) error {
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"note": ""}},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxSurge: ptr.To(intstr.FromInt32(0)), MaxUnavailable: ptr.To(intstr.FromString("40%")),
				},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       podSpec(),
			},
		},
	}
	got, err := client.AppsV1().Deployments(namespace).Create(ctx, deployment, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	update := got.Spec.Strategy.RollingUpdate
	if *got.Spec.Replicas != 0 || update.MaxSurge.IntValue() != 0 || update.MaxUnavailable.StrVal != "40%" {
		return fmt.Errorf("deployment came back as %v", got.Spec)
	}
	limit := got.Spec.Template.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory]
	if limit.Cmp(resource.MustParse("64Mi")) != 0 {
		return fmt.Errorf("the memory limit came back as %s", limit.String())
	}
	scale, err := client.AppsV1().Deployments(namespace).GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 3
	if scale, err = client.AppsV1().Deployments(namespace).UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if scale.Spec.Replicas != 3 || scale.Status.Selector != "app=web" {
		return fmt.Errorf("scale came back as %v", scale)
	}
	say("deployment ok")
	return nil
}

func writeCronJob(ctx context.Context, client *kubernetes.Clientset, namespace string) error {
	spec := podSpec()
	spec.RestartPolicy = corev1.RestartPolicyOnFailure
	job := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly"},
		Spec: batchv1.CronJobSpec{
			Schedule:          "0 3 * * *",
			TimeZone:          ptr.To("Etc/UTC"),
			ConcurrencyPolicy: batchv1.ForbidConcurrent,
			Suspend:           ptr.To(false),
			JobTemplate:       batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}}},
		},
	}
	got, err := client.BatchV1().CronJobs(namespace).Create(ctx, job, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if *got.Spec.Suspend || *got.Spec.TimeZone != "Etc/UTC" || *got.Spec.SuccessfulJobsHistoryLimit != 3 {
		return fmt.Errorf("cron job came back as %v", got.Spec)
	}
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	got.Status.LastScheduleTime = &now
	if got, err = client.BatchV1().CronJobs(namespace).UpdateStatus(ctx, got, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if !got.Status.LastScheduleTime.Equal(&now) {
		return fmt.Errorf("last schedule came back as %v", got.Status.LastScheduleTime)
	}
	say("cronjob ok")
	return nil
}

func writeRole(ctx context.Context, client *kubernetes.Clientset, namespace string) error {
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}},
	}
	got, err := client.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if len(got.Rules) != 1 || len(got.Rules[0].APIGroups) != 1 || got.Rules[0].APIGroups[0] != "" {
		return fmt.Errorf("role came back as %v", got.Rules)
	}
	say("role ok")
	return nil
}

func writePod(ctx context.Context, client *kubernetes.Clientset, namespace string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"}, Spec: podSpec()}
	got, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	probe := got.Spec.Containers[0].LivenessProbe
	if probe == nil || probe.HTTPGet.Port.StrVal != "http" || probe.PeriodSeconds != 10 {
		return fmt.Errorf("the probe came back as %v", probe)
	}
	got, err = client.CoreV1().Pods(namespace).Patch(ctx, got.Name, types.StrategicMergePatchType,
		[]byte(`{"metadata":{"labels":{"patched":"yes"}}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if got.Labels["patched"] != "yes" {
		return fmt.Errorf("labels came back as %v", got.Labels)
	}
	say("pod ok")
	return nil
}

func refuseDuplicate(ctx context.Context, client *kubernetes.Clientset, namespace string) error {
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
	_, err := client.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a second role of the same name: %v", err)
	}
	say("duplicate refused: %v", err)
	return nil
}

// evictPod sends DeleteOptions as protobuf and waits for nothing: an unscheduled pod is deleted at once.
func evictPod(ctx context.Context, client *kubernetes.Clientset, namespace string) error {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "patched=yes"})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
		if err := client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, options); err != nil {
			return err
		}
	}
	say("pods deleted %d", len(pods.Items))
	return nil
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{
			Name:  "main",
			Image: "registry.example/app:1",
			Args:  []string{"--flag", ""},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
				corev1.ResourceMemory: resource.MustParse("64Mi"), corev1.ResourceCPU: resource.MustParse("250m"),
			}},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("http")},
			}},
		}},
	}
}

// contentCounter counts the request bodies that went out as protobuf.
type contentCounter struct {
	next   http.RoundTripper
	bodies int
}

func (c *contentCounter) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Header.Get("Content-Type") == protobuf {
		c.bodies++
	}
	return c.next.RoundTrip(request)
}
