package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// past reports the command that was executed.
var past = map[string]string{"create": "created", "touch": "touched", "delete": "deleted"}

// follower is a shared informer on the ConfigMaps of a namespace, and what it has seen.
type follower struct {
	client                       *kubernetes.Clientset
	namespace                    string
	lister                       corelisters.ConfigMapNamespaceLister
	adds, updates, deletes, gone atomic.Int64
}

// runInformer obeys one command per line of standard input and answers each with one line:
//
//	create FROM TO   create ConfigMaps c<FROM>…c<TO-1>
//	touch FROM TO    change each of them
//	delete FROM TO   delete each of them
//	verify           wait until the cache equals the server; answers "equal <objects>"
//	seen             answers "adds <n> updates <n> deletes <n> expired <n>"
func runInformer(ctx context.Context, config *rest.Config, namespace string) error {
	f := &follower{namespace: namespace}
	watched := rest.CopyConfig(config)
	watched.Wrap(func(next http.RoundTripper) http.RoundTripper { return &expiryCounter{next: next, seen: &f.gone} })
	watching, err := clientset(watched)
	if err != nil {
		return err
	}
	if f.client, err = clientset(config); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(watching, 0, informers.WithNamespace(namespace))
	configMaps := factory.Core().V1().ConfigMaps()
	f.lister = configMaps.Lister().ConfigMaps(namespace)
	if _, err := configMaps.Informer().AddEventHandler(f.handler()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), configMaps.Informer().HasSynced) {
		return errors.New("the informer never synced")
	}
	say("synced")
	return f.obey(ctx)
}

func (f *follower) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { f.adds.Add(1) },
		UpdateFunc: func(any, any) { f.updates.Add(1) },
		DeleteFunc: func(any) { f.deletes.Add(1) },
	}
}

func (f *follower) obey(ctx context.Context) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		var err error
		switch {
		case len(words) == 3:
			err = f.change(ctx, words[0], words[1], words[2])
		case lines.Text() == "verify":
			err = f.verify(ctx)
		case lines.Text() == "seen":
			say("adds %d updates %d deletes %d expired %d", f.adds.Load(), f.updates.Load(), f.deletes.Load(), f.gone.Load())
		default:
			err = fmt.Errorf("unknown command %q", lines.Text())
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

func (f *follower) change(ctx context.Context, what, from, to string) error {
	first, err := strconv.Atoi(from)
	if err != nil {
		return err
	}
	end, err := strconv.Atoi(to)
	if err != nil {
		return err
	}
	maps := f.client.CoreV1().ConfigMaps(f.namespace)
	for i := first; i < end && err == nil; i++ {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%03d", i)}}
		switch what {
		case "create":
			_, err = maps.Create(ctx, object, metav1.CreateOptions{})
		case "touch":
			object.Data = map[string]string{"touched": time.Now().String()}
			_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
		case "delete":
			err = maps.Delete(ctx, object.Name, metav1.DeleteOptions{})
		default:
			err = fmt.Errorf("unknown change %q", what)
		}
	}
	if err == nil {
		say("%s %d", past[what], end-first)
	}
	return err
}

// verify waits until every object of the server is in the cache in the same version, and no other is.
func (f *follower) verify(ctx context.Context) error {
	var count int
	equal := func(ctx context.Context) (bool, error) {
		list, err := f.client.CoreV1().ConfigMaps(f.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // The server may be starting.
		}
		cached, err := f.lister.List(labels.Everything())
		if err != nil {
			return false, err
		}
		have := make(map[string]*corev1.ConfigMap, len(cached))
		for _, object := range cached {
			have[object.Name] = object
		}
		count = len(list.Items)
		if len(have) != count {
			return false, nil
		}
		for i := range list.Items {
			if !equality.Semantic.DeepEqual(&list.Items[i], have[list.Items[i].Name]) {
				return false, nil
			}
		}
		return true, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, equal); err != nil {
		return fmt.Errorf("the cache never became equal to the server: %w", err)
	}
	say("equal %d", count)
	return nil
}

// expiryCounter counts the watches that the server ended because they asked for too old a version.
type expiryCounter struct {
	next http.RoundTripper
	seen *atomic.Int64
}

func (c *expiryCounter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err == nil && request.URL.Query().Get("watch") == "true" {
		response.Body = &expiryReader{ReadCloser: response.Body, seen: c.seen}
	}
	return response, err
}

type expiryReader struct {
	io.ReadCloser
	seen *atomic.Int64
}

func (r *expiryReader) Read(buffer []byte) (int, error) {
	n, err := r.ReadCloser.Read(buffer)
	if bytes.Contains(buffer[:n], []byte(`"reason":"Expired"`)) {
		r.seen.Add(1)
	}
	return n, err
}
