// Command kubectl is the real kubectl: the whole program is the module k8s.io/kubectl. Its own main package lives in
// k8s.io/kubernetes, whose replace directives make `go install` refuse it, hence these lines.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
