// Command peer is a set of ordinary Go programs of the Kubernetes world, each in its own file, that a test runs against a
// server: what client-go and controller-runtime do, unchanged. Each prints one line per fact and fails loudly.
//
//	peer informer    a shared informer that takes commands on standard input
//	peer protobuf    a typed client that sends protobuf
//	peer leader      two candidates for one Lease
//	peer manager     a controller-runtime manager with a reconciler
//	peer operator    an operator on a custom kind, whose definition is the file $DEFINITION
//
// The server is the one of $KUBECONFIG, the namespace the one of $NAMESPACE.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience bounds every wait: a program that hangs is a failed test.
const patience = 60 * time.Second

var programs = map[string]func(ctx context.Context, config *rest.Config, namespace string) error{
	"informer": runInformer,
	"protobuf": runProtobuf,
	"leader":   runLeader,
	"manager":  runManager,
	"operator": runOperator,
}

func main() {
	if len(os.Args) != 2 || programs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: peer informer|protobuf|leader|manager|operator")
		os.Exit(2)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err == nil {
		config.QPS, config.Burst = 1000, 1000
		err = programs[os.Args[1]](context.Background(), config, os.Getenv("NAMESPACE"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

// say prints one fact; the test reads them line by line.
func say(format string, values ...any) {
	fmt.Printf(format+"\n", values...)
}

func clientset(config *rest.Config) (*kubernetes.Clientset, error) {
	return kubernetes.NewForConfig(config)
}
