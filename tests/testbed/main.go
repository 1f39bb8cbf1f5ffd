// testbed: a real Kubernetes API server and a real etcd in one process, plus
// a seeder, a churner and direct-to-etcd loading, for tests on loopback.
package main

import (
	"fmt"
	"os"
	"strings"
)

// command is one of the program's commands.
type command struct {
	run   func(args []string) error
	short string
}

// commands is all of them by name.
var commands map[string]command

// init fills the table.
func init() {
	commands = map[string]command{
		"serve":    {cmdServe, "run etcd + kube-apiserver (or only one of them) until SIGTERM / SIGINT / stdin close"},
		"apply":    {cmdApply, "server-side apply a directory or file of YAML manifests, status included"},
		"seed":     {cmdApply, "alias of apply"},
		"delete":   {cmdDelete, "delete what manifests name, or whole namespaces (finalizes them: there is no controller manager)"},
		"load":     {cmdLoad, "create N Services + EndpointSlices (+ Pods) through the API, concurrently"},
		"etcdload": {cmdEtcdLoad, "write N Services + EndpointSlices straight into etcd (protobuf storage encoding)"},
		"churn":    {cmdChurn, "update N EndpointSlices a second for S seconds; JSON lines of what changed when"},
		"watch":    {cmdWatch, "time a streaming list (sendInitialEvents) or a LIST of a resource"},
		"token":    {cmdToken, "mint a ServiceAccount token with TokenRequest"},
		"compact":  {cmdCompact, "compact etcd at its current revision (makes old watches answer 410 Gone)"},
		"check":    {cmdCheck, "check authn, authz, CRD, status, WatchList of a running testbed; prints PASS/FAIL lines"},
		"mcs-crds": {cmdMCSCRDs, "print the multicluster.x-k8s.io CRDs (sigs.k8s.io/mcs-api)"},
	}
}

// main runs the command that is named first.
func main() {
	if len(os.Args) < 2 || commands[os.Args[1]].run == nil {
		fmt.Fprintf(os.Stderr, "usage: %s COMMAND [flags]   (COMMAND -h lists its flags)\n", os.Args[0])
		for _, n := range strings.Fields("serve apply seed delete load etcdload churn watch token compact check mcs-crds") {
			fmt.Fprintf(os.Stderr, "  %-9s %s\n", n, commands[n].short)
		}
		os.Exit(2)
	}
	if err := commands[os.Args[1]].run(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "testbed "+os.Args[1]+":", err)
		os.Exit(1)
	}
}
