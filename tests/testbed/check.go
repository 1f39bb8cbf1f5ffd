package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	crds "sigs.k8s.io/mcs-api/config/crd"
)

// cmdCheck tries what the tests count on and prints a line for each.
func cmdCheck(args []string) error {
	fs := flag.NewFlagSet("check", flag.ExitOnError)
	file := fs.String("info", "", "testbed.json")
	gone := fs.Bool("expect-410", false, "the server was restarted: a watch from resourceVersion 1 must be 410")
	fs.Parse(args)
	b, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	var in info
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	passed, failed := 0, 0
	ok := func(name string, err error) {
		if err == nil {
			passed++
			fmt.Println("PASS", name)
		} else {
			failed++
			fmt.Println("FAIL", name+":", err)
		}
	}
	want := func(got, exp any) error {
		if fmt.Sprint(got) != fmt.Sprint(exp) {
			return fmt.Errorf("got %v, want %v", got, exp)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()

	// raw HTTP: what a Rust client sends
	caPEM, err := os.ReadFile(in.CA)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(caPEM)
	get := func(u *user, token, path string) (*http.Response, error) {
		tc := &tls.Config{RootCAs: pool}
		if u != nil {
			c, err := tls.LoadX509KeyPair(u.Cert, u.KeyPKCS8)
			if err != nil {
				return nil, err
			}
			tc.Certificates = []tls.Certificate{c}
		}
		r, err := http.NewRequestWithContext(ctx, "GET", in.URL+path, nil)
		if err != nil {
			return nil, err
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return (&http.Client{Transport: &http.Transport{TLSClientConfig: tc, ForceAttemptHTTP2: true}}).Do(r)
	}
	code := func(u *user, token, path string, exp int) error {
		r, err := get(u, token, path)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		if r.StatusCode != exp {
			return fmt.Errorf("got %d, want %d: %.200s", r.StatusCode, exp, b)
		}
		return nil
	}
	U := func(n string) *user { u := in.Users[n]; return &u }
	tok := func(n string) string { b, _ := os.ReadFile(in.Users[n].TokenFile); return strings.TrimSpace(string(b)) }
	const svcs, slices, pods = "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices", "/api/v1/pods"
	ok("anonymous: 401", code(nil, "", svcs, 401))
	ok("anonymous /readyz: 401", code(nil, "", "/readyz", 401))
	ok("wrong token: 401", code(nil, "wrong", svcs, 401))
	ok("reader by certificate", code(U("reader"), "", svcs, 200))
	ok("reader by RSA certificate", code(U("reader-rsa"), "", svcs, 200))
	ok("reader by token", code(nil, tok("reader"), svcs, 200))
	ok("reader: endpointslices", code(U("reader"), "", slices, 200))
	ok("reader: pods", code(U("reader"), "", pods, 200))
	ok("reader: secrets 403", code(U("reader"), "", "/api/v1/secrets", 403))
	ok("reader-nopods: services", code(U("reader-nopods"), "", svcs, 200))
	ok("reader-nopods: pods 403", code(U("reader-nopods"), "", pods, 403))
	ok("nobody: services 403", code(U("nobody"), "", svcs, 403))
	ok("nobody: /version", code(U("nobody"), "", "/version", 200))
	ok("plain HTTP is refused", func() error {
		r, err := http.Get("http://" + strings.TrimPrefix(in.URL, "https://") + "/readyz")
		if err != nil {
			return nil
		}
		defer r.Body.Close()
		return want(r.StatusCode, 400)
	}())

	acfg, err := restConfig(in.Users["admin"].Kubeconfig)
	if err != nil {
		return err
	}
	admin, err := kubernetes.NewForConfig(acfg)
	if err != nil {
		return err
	}
	v, err := admin.Discovery().ServerVersion()
	if err == nil {
		fmt.Println("     server version", v.GitVersion, v.GoVersion)
	}
	ok("version", err)
	rcfg, err := restConfig(in.Users["reader"].KubeToken)
	if err != nil {
		return err
	}
	reader, err := kubernetes.NewForConfig(rcfg)
	if err != nil {
		return err
	}
	ns := fmt.Sprintf("check-%d", time.Now().UnixNano())
	_, err = admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
	ok("create Namespace", err)
	_, err = reader.CoreV1().Services(ns).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	ok("reader cannot create", func() error {
		if err == nil || !strings.Contains(err.Error(), "forbidden") {
			return fmt.Errorf("got %v", err)
		}
		return nil
	}())
	dual := corev1.IPFamilyPolicyPreferDualStack
	svc, err := admin.CoreV1().Services(ns).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{IPFamilyPolicy: &dual, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}, metav1.CreateOptions{})
	ok("create dual-stack Service", err)
	if err == nil {
		fmt.Println("     cluster IPs", svc.Spec.ClusterIPs)
		ok("two cluster IPs", want(len(svc.Spec.ClusterIPs), 2))
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.7"}}
		_, err = admin.CoreV1().Services(ns).UpdateStatus(ctx, svc, metav1.UpdateOptions{})
		ok("Service status.loadBalancer needs type LoadBalancer", func() error {
			if err == nil {
				return fmt.Errorf("accepted for ClusterIP")
			}
			return nil
		}())
	}
	sh := shape{services: 1, namespaces: 1, endpoints: 3, prefix: "x"}
	sl := sh.slice(0)
	sl.Namespace, sl.Labels[discoveryv1.LabelServiceName] = ns, "web"
	_, err = admin.DiscoveryV1().EndpointSlices(ns).Create(ctx, sl, metav1.CreateOptions{})
	ok("create EndpointSlice", err)
	p := sh.pod(0, 0)
	p.Namespace = ns
	p, err = admin.CoreV1().Pods(ns).Create(ctx, p, metav1.CreateOptions{})
	ok("create Pod without a ServiceAccount", err)
	if err == nil {
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "172.16.0.1", PodIPs: []corev1.PodIP{{IP: "172.16.0.1"}, {IP: "fd00:b::1"}}}
		p, err = admin.CoreV1().Pods(ns).UpdateStatus(ctx, p, metav1.UpdateOptions{})
		ok("Pod status.podIPs", err)
		if err == nil {
			ok("Pod status.podIP kept", want(p.Status.PodIP, "172.16.0.1"))
		}
	}

	// CRD and custom resource
	a, err := newApplier(in.Users["admin"].Kubeconfig)
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := utilyaml.Unmarshal(crds.ServiceImportCRD, &crd.Object); err != nil {
		return err
	}
	_, err = a.apply(ctx, crd)
	ok("apply the ServiceImport CRD", err)
	t := time.Now()
	err = a.waitEstablished(ctx, crd)
	if err == nil {
		err = a.waitServed(crd)
	}
	ok(fmt.Sprintf("CRD is served after %v", time.Since(t).Round(time.Millisecond)), err)
	rdyn, err := dynamic.NewForConfig(rcfg)
	if err != nil {
		return err
	}
	si := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
		"metadata": map[string]any{"name": "web", "namespace": ns},
		"spec":     map[string]any{"type": "ClusterSetIP", "ips": []any{"10.42.0.7"}, "ports": []any{map[string]any{"name": "http", "port": int64(80), "protocol": "TCP"}}},
		"status":   map[string]any{"clusters": []any{map[string]any{"cluster": "c1"}}},
	}}
	got, err := a.apply(ctx, si)
	ok("apply a ServiceImport with status", err)
	if err == nil {
		cs, _, _ := unstructured.NestedSlice(got.Object, "status", "clusters")
		ok("ServiceImport status kept", want(len(cs), 1))
	}
	sig := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "serviceimports"}
	ok("reader streams ServiceImports (sendInitialEvents)", func() error {
		yes := true
		w, err := rdyn.Resource(sig).Watch(ctx, metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
		if err != nil {
			return err
		}
		defer w.Stop()
		n := 0
		for e := range w.ResultChan() {
			m := e.Object.(*unstructured.Unstructured)
			if e.Type == "ADDED" {
				n++
			} else if e.Type == "BOOKMARK" && m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				if n < 1 {
					return fmt.Errorf("bookmark after %d", n)
				}
				return nil
			} else {
				return fmt.Errorf("%s %v", e.Type, e.Object)
			}
		}
		return fmt.Errorf("the watch ended")
	}())

	// WatchList as bytes on the wire, then a live change
	ok("WatchList over raw HTTP/2 JSON, then a live change", func() error {
		q := url.Values{"watch": {"true"}, "sendInitialEvents": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersionMatch": {"NotOlderThan"}}
		r, err := get(U("reader"), "", svcs+"?"+q.Encode())
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != 200 {
			b, _ := io.ReadAll(r.Body)
			return fmt.Errorf("%d %s", r.StatusCode, b)
		}
		fmt.Println("     protocol", r.Proto, "content type", r.Header.Get("Content-Type"), "transfer", r.TransferEncoding)
		sc := bufio.NewScanner(r.Body)
		sc.Buffer(nil, 16<<20)
		n, live := 0, false
		var changed time.Time
		for sc.Scan() {
			var e struct {
				Type   string
				Object struct {
					Metadata metav1.ObjectMeta
				}
			}
			if err := json.Unmarshal(sc.Bytes(), &e); err != nil {
				return err
			}
			switch {
			case e.Type == "ADDED" && !live:
				n++
			case e.Type == "BOOKMARK" && !live:
				if e.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
					return fmt.Errorf("first bookmark lacks the annotation: %s", sc.Bytes())
				}
				fmt.Printf("     bookmark line: %.230s\n", sc.Bytes())
				live = true
				changed = time.Now()
				if _, err := admin.CoreV1().Services(ns).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{}); err != nil {
					return err
				}
			case e.Type == "ADDED" && e.Object.Metadata.Name == "late":
				fmt.Printf("     %d initial objects; the live change came %v after the request to make it\n", n, time.Since(changed).Round(100*time.Microsecond))
				return nil
			default:
				return fmt.Errorf("unexpected %s", sc.Bytes())
			}
		}
		return fmt.Errorf("stream ended: %v", sc.Err())
	}())
	if *gone {
		ok("a watch from resourceVersion 1 is 410 or an ERROR event 410", func() error {
			r, err := get(U("reader"), "", svcs+"?watch=true&resourceVersion=1&timeoutSeconds=3")
			if err != nil {
				return err
			}
			defer r.Body.Close()
			b, _ := io.ReadAll(io.LimitReader(r.Body, 400))
			fmt.Printf("     status %d: %.160s\n", r.StatusCode, b)
			if r.StatusCode == 410 || strings.Contains(string(b), `"code":410`) {
				return nil
			}
			return fmt.Errorf("neither")
		}())
	}
	ok("ServiceAccount token (TokenRequest) can read", func() error {
		f := in.CA + ".satoken"
		defer os.Remove(f)
		if err := cmdToken([]string{"-kubeconfig", in.Users["admin"].Kubeconfig, "-o", f}); err != nil {
			return err
		}
		b, _ := os.ReadFile(f)
		return code(nil, string(b), slices, 200)
	}())
	ok("namespace deletion, finalized by us", func() error {
		if err := cmdDelete([]string{"-kubeconfig", in.Users["admin"].Kubeconfig, "-namespace", ns}); err != nil {
			return err
		}
		return code(U("admin"), "", "/api/v1/namespaces/"+ns, 404)
	}())
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		return fmt.Errorf("%d checks failed", failed)
	}
	return nil
}
