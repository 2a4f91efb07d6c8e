package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// runLeader lets two candidates compete for one Lease: the first leads, steps down, the second takes over.
func runLeader(ctx context.Context, config *rest.Config, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := clientset(config)
	if err != nil {
		return err
	}
	elected := make(chan string)
	candidate := func(ctx context.Context, name string) {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Name: "leader", Namespace: namespace},
				Client:     client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: name},
			},
			LeaseDuration:   4 * time.Second,
			RenewDeadline:   3 * time.Second,
			RetryPeriod:     200 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					select {
					case elected <- name:
					case <-ctx.Done():
					}
				},
				OnStoppedLeading: func() {},
			},
		})
	}
	first, stepDown := context.WithCancel(ctx)
	defer stepDown()
	go candidate(first, "one")
	if err := expectLeader(ctx, elected, "one"); err != nil {
		return err
	}
	go candidate(ctx, "two")
	stepDown()
	if err := expectLeader(ctx, elected, "two"); err != nil {
		return err
	}
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, "leader", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != "two" || lease.Spec.RenewTime.IsZero() {
		return fmt.Errorf("unexpected lease spec %v", lease.Spec)
	}
	say("transitions %d", *lease.Spec.LeaseTransitions)
	return nil
}

func expectLeader(ctx context.Context, elected <-chan string, name string) error {
	select {
	case got := <-elected:
		say("leader %s", got)
		if got != name {
			return fmt.Errorf("%s leads, not %s", got, name)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s was never elected", name)
	}
}
