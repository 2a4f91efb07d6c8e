// Command sample-apiserver is the upstream k8s.io/sample-apiserver on a free loopback port, which is its first line of
// output.
package main

import (
	"fmt"
	"net"
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	"k8s.io/sample-apiserver/pkg/cmd/server"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	options := server.NewWardleServerOptions(os.Stdout, os.Stderr)
	serving := options.RecommendedOptions.SecureServing
	serving.Listener, serving.BindPort = listener, listener.Addr().(*net.TCPAddr).Port
	fmt.Println(serving.BindPort)
	os.Exit(cli.Run(server.NewCommandStartWardleServer(genericapiserver.SetupSignalContext(), options, false)))
}
