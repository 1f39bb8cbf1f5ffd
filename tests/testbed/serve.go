package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	basecompatibility "k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// info describes a running testbed to its callers.
type info struct {
	PID       int              `json:"pid"`
	URL       string           `json:"url,omitempty"`
	Port      int              `json:"port,omitempty"`
	CA        string           `json:"ca,omitempty"`
	EtcdURL   string           `json:"etcd"`
	Users     map[string]user  `json:"users,omitempty"`
	AuditLog  string           `json:"auditLog,omitempty"`
	StartedMS int64            `json:"readyAfterMs"`
	StepsMS   map[string]int64 `json:"stepsMs"`
}

// ports is what a state directory keeps for the next start.
type ports struct{ API, EtcdClient, EtcdPeer int }

// multi is a flag that may be given several times.
type multi []string

// String is for flag.Value.
func (m *multi) String() string     { return strings.Join(*m, " ") }
// Set is for flag.Value.
func (m *multi) Set(s string) error { *m = append(*m, s); return nil }

// freePort is a port that nobody listens on.
func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// cmdServe runs etcd and the API server until it is told to stop.
func cmdServe(args []string) error {
	t0 := time.Now()
	fs := flag.NewFlagSet("serve", flag.ExitOnError)
	state := fs.String("state-dir", "", "directory for etcd data, keys, kubeconfigs (default: a new temporary one, removed at the end); reused as it is when it exists, ports included")
	ready := fs.String("ready-file", "", "write the JSON description here once ready (it is always in STATE/testbed.json and one line on stdout)")
	port := fs.Int("port", 0, "API server port (0: a free one, or the one of the last start)")
	etcdPort := fs.Int("etcd-port", 0, "etcd client port (0: likewise)")
	etcdOnly := fs.Bool("etcd-only", false, "run only etcd")
	etcdServers := fs.String("etcd-servers", "", "use this etcd instead of an embedded one")
	cidr := fs.String("service-cidr", "10.96.0.0/12,fd00:10:96::/108", "service IP ranges")
	admission := fs.String("disable-admission", "ServiceAccount", "admission plugins to turn off")
	authz := fs.String("authorization-mode", "RBAC", "")
	anon := fs.Bool("anonymous-auth", false, "")
	apf := fs.Bool("apf", true, "API priority and fairness")
	audit := fs.Bool("audit", false, "write STATE/audit.log (Metadata level)")
	fsync := fs.Bool("fsync", false, "let etcd fsync (off: faster, unsafe on power loss only)")
	stdinClose := fs.Bool("stop-on-stdin-close", false, "stop when stdin reaches its end")
	grace := fs.Duration("grace", 2*time.Second, "how long a stop may take; then the process ends at once (a graceful stop waits 60 s for open watches)")
	verbosity := fs.Int("v", 0, "klog verbosity")
	var extra multi
	fs.Var(&extra, "apiserver-arg", "one more kube-apiserver flag, --name=value (repeatable)")
	fs.Parse(args)

	steps := map[string]int64{}
	step := func(n string) { steps[n] = time.Since(t0).Milliseconds() }

	tmp := ""
	if *state == "" {
		d, err := os.MkdirTemp("", "testbed-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(d)
		*state, tmp = d, d
	}
	dir, err := filepath.Abs(*state)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// the same ports on a restart, so that clients find the server again
	var pt ports
	pf := filepath.Join(dir, "ports.json")
	if b, err := os.ReadFile(pf); err == nil {
		if err := json.Unmarshal(b, &pt); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		flag int
		v    *int
	}{{*port, &pt.API}, {*etcdPort, &pt.EtcdClient}, {0, &pt.EtcdPeer}} {
		if p.flag != 0 {
			*p.v = p.flag
		} else if *p.v == 0 {
			*p.v = freePort()
		}
	}
	b, _ := json.Marshal(pt)
	if err := os.WriteFile(pf, b, 0o644); err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if *stdinClose {
		go func() { io.Copy(io.Discard, os.Stdin); stop() }()
	}

	in := info{PID: os.Getpid(), Users: map[string]user{}, StepsMS: steps}

	// etcd
	var etcd *embed.Etcd
	in.EtcdURL = *etcdServers
	if in.EtcdURL == "" {
		etcd, in.EtcdURL, err = startEtcd(dir, pt, *fsync)
		if err != nil {
			return fmt.Errorf("etcd: %w", err)
		}
		defer etcd.Close()
		step("etcd")
	}
	if *etcdOnly {
		if err := publish(in, dir, "etcd.json", *ready, t0); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-etcd.Err():
			return err
		}
	}

	// keys, users
	pki := filepath.Join(dir, "pki")
	in.Port = pt.API
	in.URL = fmt.Sprintf("https://127.0.0.1:%d", pt.API)
	in.CA = filepath.Join(pki, "ca.crt")
	var users []user
	for _, n := range []string{"admin", "reader", "reader-rsa", "reader-nopods", "nobody"} {
		u := user{Name: n}
		if n == "admin" {
			u.Groups = []string{"system:masters"}
		}
		base := filepath.Join(pki, "users", n)
		u.Cert, u.Key, u.KeyPKCS8, u.TokenFile = base+".crt", base+".key", base+".p8.key", base+".token"
		u.Kubeconfig, u.KubeToken = base+".kubeconfig", base+"-token.kubeconfig"
		users = append(users, u)
		in.Users[n] = u
	}
	if err := makePKI(pki, users); err != nil {
		return err
	}
	for _, u := range users {
		if err := writeKubeconfigs(in, u); err != nil {
			return err
		}
	}
	step("pki")

	// kube-apiserver
	flags := []string{
		"--etcd-servers=" + in.EtcdURL,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", pt.API),
		"--tls-cert-file=" + pki + "/apiserver.crt", "--tls-private-key-file=" + pki + "/apiserver.key",
		"--external-hostname=localhost", "--advertise-address=127.0.0.1",
		"--client-ca-file=" + in.CA,
		"--token-auth-file=" + pki + "/tokens.csv",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki + "/sa.pub", "--service-account-signing-key-file=" + pki + "/sa.key",
		"--service-cluster-ip-range=" + *cidr,
		"--authorization-mode=" + *authz,
		fmt.Sprintf("--anonymous-auth=%v", *anon),
		fmt.Sprintf("--enable-priority-and-fairness=%v", *apf),
		"--allow-privileged=true",
		// a loopback address cannot stand in the EndpointSlice of default/kubernetes
		"--endpoint-reconciler-type=none",
		fmt.Sprintf("--v=%d", *verbosity),
	}
	if *admission != "" {
		flags = append(flags, "--disable-admission-plugins="+*admission)
	}
	if *audit {
		in.AuditLog = filepath.Join(dir, "audit.log")
		pol := filepath.Join(dir, "audit-policy.yaml")
		if err := os.WriteFile(pol, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"), 0o644); err != nil {
			return err
		}
		flags = append(flags, "--audit-log-path="+in.AuditLog, "--audit-policy-file="+pol)
	}
	flags = append(flags, extra...)

	apiCtx, apiStop := context.WithCancel(ctx)
	defer apiStop()
	apiDone := make(chan error, 1)
	go func() { apiDone <- runAPIServer(apiCtx, flags) }()

	if err := waitReady(apiCtx, in, apiDone); err != nil {
		return err
	}
	step("readyz")
	if err := grantRoles(ctx, in.Users["admin"].Kubeconfig); err != nil {
		return fmt.Errorf("roles: %w", err)
	}
	step("roles")
	if err := publish(in, dir, "testbed.json", *ready, t0); err != nil {
		return err
	}

	select {
	case <-ctx.Done():
		t := time.Now()
		fmt.Fprintln(os.Stderr, "testbed: stopping")
		select {
		case err := <-apiDone:
			fmt.Fprintf(os.Stderr, "testbed: API server stopped after %v (%v)\n", time.Since(t).Round(time.Millisecond), err)
			return nil
		case <-time.After(*grace):
			// what etcd has acknowledged is in the page cache or on disk: nothing is lost
			if tmp != "" {
				os.RemoveAll(tmp)
			}
			os.Exit(0)
			return nil
		}
	case err := <-apiDone:
		return fmt.Errorf("API server ended: %v", err)
	}
}

// startEtcd runs etcd and waits until it is ready.
func startEtcd(dir string, pt ports, fsync bool) (*embed.Etcd, string, error) {
	cu := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", pt.EtcdClient)}
	pu := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", pt.EtcdPeer)}
	c := embed.NewConfig()
	c.Name = "testbed"
	c.Dir = filepath.Join(dir, "etcd")
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{cu}, []url.URL{cu}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{pu}, []url.URL{pu}
	c.InitialCluster = "testbed=" + pu.String()
	c.LogLevel, c.LogOutputs = "error", []string{"stderr"}
	c.UnsafeNoFsync = !fsync
	c.QuotaBackendBytes = 8 << 30
	c.MaxTxnOps = 2048
	c.MaxRequestBytes = 32 << 20
	c.WatchProgressNotifyInterval = 5 * time.Second
	// a single member needs no patience
	c.TickMs, c.ElectionMs = 20, 200
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, "", err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, cu.String(), nil
	case err := <-e.Err():
		return nil, "", err
	case <-time.After(60 * time.Second):
		e.Close()
		return nil, "", errors.New("not ready after 60 s")
	}
}

// runAPIServer is what app.NewAPIServerCommand does, under a context of ours.
func runAPIServer(ctx context.Context, flags []string) error {
	s := options.NewServerRunOptions()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, f := range s.Flags().FlagSets {
		fs.AddFlagSet(f)
	}
	if err := fs.Parse(flags); err != nil {
		return err
	}
	reg := s.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := reg.Set(); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(s.Logs, reg.FeatureGateFor(basecompatibility.DefaultKubeComponent)); err != nil {
		return err
	}
	c, err := s.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := c.Validate(); len(errs) > 0 {
		return errors.Join(errs...)
	}
	return app.Run(ctx, c)
}

// waitReady polls /readyz, with a credential as it is not open to all.
func waitReady(ctx context.Context, in info, done <-chan error) error {
	cfg, err := restConfig(in.Users["admin"].Kubeconfig)
	if err != nil {
		return err
	}
	cl, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(120 * time.Second)
	for {
		select {
		case err := <-done:
			return fmt.Errorf("API server ended before it was ready: %v", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		code := 0
		r := cl.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx)
		r.StatusCode(&code)
		if code == http.StatusOK {
			return nil
		}
		if time.Now().After(deadline) {
			b, _ := cl.Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").Do(ctx).Raw()
			return fmt.Errorf("not ready after 120 s: %v %s", r.Error(), b)
		}
	}
}

// writeKubeconfigs writes one kubeconfig with the user's certificate and one with the token.
func writeKubeconfigs(in info, u user) error {
	ca, err := os.ReadFile(in.CA)
	if err != nil {
		return err
	}
	crt, err := os.ReadFile(u.Cert)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(u.Key)
	if err != nil {
		return err
	}
	tok, err := os.ReadFile(u.TokenFile)
	if err != nil {
		return err
	}
	mk := func(path string, ai *clientcmdapi.AuthInfo) error {
		c := clientcmdapi.NewConfig()
		c.Clusters["testbed"] = &clientcmdapi.Cluster{Server: in.URL, CertificateAuthorityData: ca}
		c.AuthInfos[u.Name] = ai
		c.Contexts["testbed"] = &clientcmdapi.Context{Cluster: "testbed", AuthInfo: u.Name}
		c.CurrentContext = "testbed"
		return clientcmd.WriteToFile(*c, path)
	}
	if err := mk(u.Kubeconfig, &clientcmdapi.AuthInfo{ClientCertificateData: crt, ClientKeyData: key}); err != nil {
		return err
	}
	return mk(u.KubeToken, &clientcmdapi.AuthInfo{Token: string(tok)})
}

// publish writes the description to the files and to stdout.
func publish(in info, dir, name, ready string, t0 time.Time) error {
	in.StartedMS = time.Since(t0).Milliseconds()
	b, err := json.MarshalIndent(in, "", "  ")
	if err != nil {
		return err
	}
	for _, p := range []string{filepath.Join(dir, name), ready} {
		if p == "" {
			continue
		}
		if err := os.WriteFile(p+".tmp", b, 0o644); err != nil {
			return err
		}
		if err := os.Rename(p+".tmp", p); err != nil {
			return err
		}
	}
	one, _ := json.Marshal(in)
	fmt.Println(string(one))
	return nil
}

// grantRoles gives the users their roles: reader all that a DNS gateway needs, reader-nopods the
// same without pods, nobody nothing at all.
func grantRoles(ctx context.Context, kubeconfig string) error {
	cfg, err := restConfig(kubeconfig)
	if err != nil {
		return err
	}
	cl, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ro := []string{"get", "list", "watch"}
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services", "namespaces"}, Verbs: ro},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: ro},
		{APIGroups: []string{"multicluster.x-k8s.io"}, Resources: []string{"serviceimports"}, Verbs: ro},
	}
	pods := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: ro}
	ign := func(err error) error {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	for name, r := range map[string][]rbacv1.PolicyRule{
		"dns-reader": append(append([]rbacv1.PolicyRule{}, rules...), pods), "dns-reader-nopods": rules} {
		_, err := cl.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: r}, metav1.CreateOptions{})
		if err := ign(err); err != nil {
			return err
		}
	}
	bind := func(name, role string, sub rbacv1.Subject) error {
		_, err := cl.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{sub},
		}, metav1.CreateOptions{})
		return ign(err)
	}
	u := func(n string) rbacv1.Subject {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: n}
	}
	if err := bind("reader", "dns-reader", u("reader")); err != nil {
		return err
	}
	if err := bind("reader-nopods", "dns-reader-nopods", u("reader-nopods")); err != nil {
		return err
	}
	// kube-system appears a moment after readyz
	for i := 0; ; i++ {
		_, err := cl.CoreV1().ServiceAccounts("kube-system").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "dns-gateway"}}, metav1.CreateOptions{})
		if ign(err) == nil {
			break
		}
		if i > 200 {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := bind("sa-dns-gateway", "dns-reader", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "kube-system", Name: "dns-gateway"}); err != nil {
		return err
	}
	// callers count on these two
	for i := 0; ; i++ {
		_, err := cl.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			_, err = cl.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		}
		if err == nil {
			return nil
		}
		if i > 400 {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
