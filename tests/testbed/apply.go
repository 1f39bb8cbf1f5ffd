package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	crds "sigs.k8s.io/mcs-api/config/crd"

	authv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// restConfig has no client-side rate limit: with client-go's default of 5 requests a second
// nothing at scale would end.
func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		kubeconfig = os.Getenv("KUBECONFIG")
	}
	if kubeconfig == "" {
		return nil, errors.New("no kubeconfig: -kubeconfig or KUBECONFIG")
	}
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	c.QPS = -1
	c.UserAgent = "testbed"
	c.WarningHandler = rest.NoWarnings{}
	return c, nil
}

// protobufConfig is restConfig for typed clients, which speak protobuf.
func protobufConfig(kubeconfig string) (*rest.Config, error) {
	c, err := restConfig(kubeconfig)
	if err == nil {
		c.ContentType = "application/vnd.kubernetes.protobuf"
		c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	}
	return c, err
}

// readManifests reads every .yaml, .yml and .json below path, in the order of their names.
func readManifests(path string) ([]*unstructured.Unstructured, error) {
	var files []string
	if path == "-" {
		files = []string{"-"}
	} else if err := filepath.Walk(path, func(p string, fi os.FileInfo, err error) error {
		if err == nil && !fi.IsDir() && (p == path || strings.HasSuffix(p, ".yaml") || strings.HasSuffix(p, ".yml") || strings.HasSuffix(p, ".json")) {
			files = append(files, p)
		}
		return err
	}); err != nil {
		return nil, err
	}
	sort.Strings(files)
	var out []*unstructured.Unstructured
	for _, f := range files {
		var b []byte
		var err error
		if f == "-" {
			b, err = io.ReadAll(os.Stdin)
		} else {
			b, err = os.ReadFile(f)
		}
		if err != nil {
			return nil, err
		}
		dec := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
		for i := 0; ; i++ {
			m := map[string]any{}
			if err := dec.Decode(&m); err == io.EOF {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s, document %d: %w", f, i, err)
			}
			if len(m) == 0 {
				continue
			}
			u := &unstructured.Unstructured{Object: m}
			if u.IsList() {
				if err := u.EachListItem(func(o runtimeObject) error {
					out = append(out, o.(*unstructured.Unstructured))
					return nil
				}); err != nil {
					return nil, err
				}
				continue
			}
			if u.GetKind() == "" || u.GetAPIVersion() == "" || u.GetName() == "" {
				return nil, fmt.Errorf("%s, document %d: no apiVersion, kind or metadata.name", f, i)
			}
			out = append(out, u)
		}
	}
	return out, nil
}

// stage orders kinds: definitions, namespaces, what others refer to, the rest.
func stage(u *unstructured.Unstructured) int {
	switch u.GetKind() {
	case "CustomResourceDefinition":
		return 0
	case "Namespace":
		return 1
	case "ClusterRole", "Role", "ServiceAccount", "ServiceCIDR":
		return 2
	}
	return 3
}

// applier applies objects of any kind, with one discovery for all of them.
type applier struct {
	dyn    dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	mu     sync.Mutex
	status map[schema.GroupVersionResource]bool
	disc   discovery.CachedDiscoveryInterface
}

// newApplier connects to the API server of a kubeconfig.
func newApplier(kubeconfig string) (*applier, error) {
	cfg, err := restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	dc, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	mc := memory.NewMemCacheClient(dc)
	return &applier{dyn: dyn, disc: mc, mapper: restmapper.NewDeferredDiscoveryRESTMapper(mc), status: map[schema.GroupVersionResource]bool{}}, nil
}

// resource finds where an object of this kind and namespace is written.
func (a *applier) resource(u *unstructured.Unstructured) (dynamic.ResourceInterface, *meta.RESTMapping, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	gvk := u.GroupVersionKind()
	m, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, nil, err
	}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		ns := u.GetNamespace()
		if ns == "" {
			ns = "default"
		}
		return a.dyn.Resource(m.Resource).Namespace(ns), m, nil
	}
	return a.dyn.Resource(m.Resource), m, nil
}

// hasStatus says whether a resource has a status subresource.
func (a *applier) hasStatus(gvr schema.GroupVersionResource) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v, ok := a.status[gvr]; ok {
		return v
	}
	l, err := a.disc.ServerResourcesForGroupVersion(gvr.GroupVersion().String())
	if err != nil {
		return false
	}
	for _, r := range l.APIResources {
		if r.Name == gvr.Resource+"/status" {
			a.status[gvr] = true
			return true
		}
	}
	a.status[gvr] = false
	return false
}

// apply writes one object by server-side apply, and its status if it brings one.
func (a *applier) apply(ctx context.Context, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ri, m, err := a.resource(u)
	if err != nil {
		return nil, err
	}
	st, hasSt, _ := unstructured.NestedFieldNoCopy(u.Object, "status")
	main := u.DeepCopy()
	withStatus := hasSt && st != nil && a.hasStatus(m.Resource)
	if withStatus {
		delete(main.Object, "status")
	}
	data, err := json.Marshal(main)
	if err != nil {
		return nil, err
	}
	force := true
	po := metav1.PatchOptions{FieldManager: "testbed", Force: &force}
	got, err := ri.Patch(ctx, u.GetName(), types.ApplyPatchType, data, po)
	if err != nil {
		return nil, err
	}
	if withStatus {
		if data, err = json.Marshal(u); err != nil {
			return nil, err
		}
		if got, err = ri.Patch(ctx, u.GetName(), types.ApplyPatchType, data, po, "status"); err != nil {
			return nil, fmt.Errorf("status: %w", err)
		}
	}
	return got, nil
}

// waitEstablished waits until a definition is accepted.
func (a *applier) waitEstablished(ctx context.Context, u *unstructured.Unstructured) error {
	for i := 0; i < 400; i++ {
		ri, _, err := a.resource(u)
		if err != nil {
			return err
		}
		got, err := ri.Get(ctx, u.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		conds, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
		for _, c := range conds {
			if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
				return nil
			}
		}
		time.Sleep(25 * time.Millisecond)
	}
	return fmt.Errorf("CRD %s: not established after 10 s", u.GetName())
}

// cmdApply applies manifests, stage by stage.
func cmdApply(args []string) error {
	fs := flag.NewFlagSet("apply", flag.ExitOnError)
	kc := fs.String("kubeconfig", "", "")
	path := fs.String("f", "", "file, directory or - for stdin")
	workers := fs.Int("c", 16, "concurrent requests")
	mcs := fs.Bool("mcs-crds", false, "apply the multicluster.x-k8s.io CRDs first")
	quiet := fs.Bool("q", false, "no line per object")
	fs.Parse(args)
	var objs []*unstructured.Unstructured
	var err error
	if *path != "" {
		if objs, err = readManifests(*path); err != nil {
			return err
		}
	}
	if *mcs {
		for _, b := range [][]byte{crds.ServiceImportCRD, crds.ServiceExportCRD} {
			u := &unstructured.Unstructured{}
			if err := utilyaml.Unmarshal(b, &u.Object); err != nil {
				return err
			}
			objs = append(objs, u)
		}
	}
	if len(objs) == 0 {
		return errors.New("nothing to apply")
	}
	a, err := newApplier(*kc)
	if err != nil {
		return err
	}
	ctx := context.Background()
	t0 := time.Now()
	for s := 0; s <= 3; s++ {
		var part []*unstructured.Unstructured
		for _, u := range objs {
			if stage(u) == s {
				part = append(part, u)
			}
		}
		if err := parallel(*workers, len(part), func(i int) error {
			u := part[i]
			got, err := a.apply(ctx, u)
			if err != nil {
				return fmt.Errorf("%s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
			}
			if !*quiet {
				fmt.Printf("%s %s/%s rv=%s\n", u.GetKind(), got.GetNamespace(), got.GetName(), got.GetResourceVersion())
			}
			return nil
		}); err != nil {
			return err
		}
		if s == 0 && len(part) > 0 {
			for _, u := range part {
				if err := a.waitEstablished(ctx, u); err != nil {
					return err
				}
			}
			// Established comes before the resource stands in discovery
			for _, u := range part {
				if err := a.waitServed(u); err != nil {
					return err
				}
			}
		}
	}
	fmt.Fprintf(os.Stderr, "applied %d objects in %v\n", len(objs), time.Since(t0).Round(time.Millisecond))
	return nil
}

// waitServed waits until the kind that a definition defines stands in discovery.
func (a *applier) waitServed(crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	for i := 0; i < 400; i++ {
		a.mu.Lock()
		a.mapper.Reset()
		_, err := a.mapper.RESTMapping(schema.GroupKind{Group: group, Kind: kind})
		a.mu.Unlock()
		if err == nil {
			return nil
		}
		time.Sleep(25 * time.Millisecond)
	}
	return fmt.Errorf("%s.%s is not in discovery after 10 s", kind, group)
}

// cmdDelete deletes what manifests name, and empties and finalizes namespaces.
func cmdDelete(args []string) error {
	fs := flag.NewFlagSet("delete", flag.ExitOnError)
	kc := fs.String("kubeconfig", "", "")
	path := fs.String("f", "", "delete what these manifests name")
	ns := fs.String("namespace", "", "empty these namespaces (comma list) of services, endpointslices, pods and serviceimports, delete and finalize them")
	workers := fs.Int("c", 16, "concurrent requests")
	fs.Parse(args)
	a, err := newApplier(*kc)
	if err != nil {
		return err
	}
	cfg, err := restConfig(*kc)
	if err != nil {
		return err
	}
	cl, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ctx := context.Background()
	zero := int64(0)
	del := metav1.DeleteOptions{GracePeriodSeconds: &zero}
	nn := func(err error) error {
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return nil
		}
		return err
	}
	var nss []string
	if *path != "" {
		objs, err := readManifests(*path)
		if err != nil {
			return err
		}
		for s := 3; s >= 0; s-- {
			var part []*unstructured.Unstructured
			for _, u := range objs {
				if u.GetKind() == "Namespace" {
					if s == 1 {
						nss = append(nss, u.GetName())
					}
				} else if stage(u) == s {
					part = append(part, u)
				}
			}
			if err := parallel(*workers, len(part), func(i int) error {
				ri, _, err := a.resource(part[i])
				if err == nil {
					err = ri.Delete(ctx, part[i].GetName(), del)
				}
				return nn(err)
			}); err != nil {
				return err
			}
		}
	}
	if *ns != "" {
		nss = append(nss, strings.Split(*ns, ",")...)
	}
	for _, n := range nss {
		// first the namespace itself, so that nothing new can come, as a real deletion does
		if err := nn(cl.CoreV1().Namespaces().Delete(ctx, n, metav1.DeleteOptions{})); err != nil {
			return err
		}
		for _, gvr := range []schema.GroupVersionResource{
			{Version: "v1", Resource: "services"}, {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
			{Version: "v1", Resource: "endpoints"}, {Version: "v1", Resource: "pods"},
			{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "serviceimports"}} {
			l, err := a.dyn.Resource(gvr).Namespace(n).List(ctx, metav1.ListOptions{})
			if err != nil {
				if nn(err) == nil {
					continue
				}
				return err
			}
			if err := parallel(*workers, len(l.Items), func(i int) error {
				return nn(a.dyn.Resource(gvr).Namespace(n).Delete(ctx, l.Items[i].GetName(), del))
			}); err != nil {
				return err
			}
		}
		o, err := cl.CoreV1().Namespaces().Get(ctx, n, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}
		o.Spec.Finalizers = nil
		if _, err := cl.CoreV1().Namespaces().Finalize(ctx, o, metav1.UpdateOptions{}); nn(err) != nil {
			return err
		}
	}
	return nil
}

// cmdToken asks for a ServiceAccount token.
func cmdToken(args []string) error {
	fs := flag.NewFlagSet("token", flag.ExitOnError)
	kc := fs.String("kubeconfig", "", "")
	sa := fs.String("sa", "kube-system/dns-gateway", "NAMESPACE/NAME")
	ttl := fs.Duration("ttl", 10*time.Minute, "at least 10m")
	out := fs.String("o", "", "write here, by rename, instead of stdout")
	fs.Parse(args)
	cfg, err := restConfig(*kc)
	if err != nil {
		return err
	}
	cl, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ns, n, _ := strings.Cut(*sa, "/")
	s := int64(ttl.Seconds())
	t, err := cl.CoreV1().ServiceAccounts(ns).CreateToken(context.Background(), n, &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &s}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if *out == "" {
		fmt.Println(t.Status.Token)
		return nil
	}
	if err := os.WriteFile(*out+".tmp", []byte(t.Status.Token), 0o600); err != nil {
		return err
	}
	return os.Rename(*out+".tmp", *out)
}

// cmdMCSCRDs prints the definitions of ServiceImport and ServiceExport.
func cmdMCSCRDs([]string) error {
	fmt.Printf("%s---\n%s", crds.ServiceImportCRD, crds.ServiceExportCRD)
	return nil
}
