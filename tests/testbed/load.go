package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// shape says what the i-th service looks like; load and etcdload make the same cluster.
type shape struct {
	services, namespaces, endpoints int
	prefix                          string
	headlessEvery                   int
}

// flags registers the flags that set a shape.
func (s *shape) flags(fs *flag.FlagSet) {
	fs.IntVar(&s.services, "services", 10000, "how many Services, each with one EndpointSlice")
	fs.IntVar(&s.namespaces, "namespaces", 100, "over how many namespaces")
	fs.IntVar(&s.endpoints, "endpoints", 5, "addresses per EndpointSlice")
	fs.StringVar(&s.prefix, "prefix", "load", "names are PREFIX-ns-I and svc-I")
	fs.IntVar(&s.headlessEvery, "headless-every", 10, "every Nth Service is headless (0: none)")
}

// ns is the namespace of the i-th service.
func (s *shape) ns(i int) string     { return fmt.Sprintf("%s-ns-%d", s.prefix, i%s.namespaces) }
// headless says whether the i-th service has no cluster IP.
func (s *shape) headless(i int) bool { return s.headlessEvery > 0 && i%s.headlessEvery == 0 }
// addr is the i-th address after base.
func addr(base string, i int) string {
	a := netip.MustParseAddr(base).As4()
	v := uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3])
	v += uint32(i)
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}).String()
}

// service is the i-th Service, without a cluster IP of its own.
func (s *shape) service(i int) *corev1.Service {
	o := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(i), Name: fmt.Sprintf("svc-%d", i), Labels: map[string]string{"app": fmt.Sprintf("app-%d", i)}},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: map[string]string{"app": fmt.Sprintf("app-%d", i)},
			Ports: []corev1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)},
				{Name: "metrics", Protocol: corev1.ProtocolTCP, Port: 9090, TargetPort: intstr.FromInt32(9090)},
			},
		},
	}
	if s.headless(i) {
		o.Spec.ClusterIP = "None"
	}
	return o
}

// slice is the EndpointSlice of the i-th Service.
func (s *shape) slice(i int) *discoveryv1.EndpointSlice {
	tcp, yes := corev1.ProtocolTCP, true
	p := func(n string, v int32) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &n, Protocol: &tcp, Port: &v}
	}
	o := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.ns(i), Name: fmt.Sprintf("svc-%d-abcde", i),
			Labels: map[string]string{
				"app":                        fmt.Sprintf("app-%d", i),
				discoveryv1.LabelServiceName: fmt.Sprintf("svc-%d", i),
				discoveryv1.LabelManagedBy:   "endpointslice-controller.k8s.io",
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{p("http", 8080), p("metrics", 9090)},
	}
	node := fmt.Sprintf("node-%d", i%50)
	for e := range s.endpoints {
		ep := discoveryv1.Endpoint{
			Addresses:  []string{addr("172.16.0.0", i*s.endpoints+e)},
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes},
			NodeName:   &node,
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: s.ns(i), Name: fmt.Sprintf("pod-%d-%d", i, e), UID: types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i, e))},
		}
		if s.headless(i) {
			h := fmt.Sprintf("pod-%d", e)
			ep.Hostname = &h
		}
		o.Endpoints = append(o.Endpoints, ep)
	}
	return o
}

// pod is the e-th Pod of the i-th Service.
func (s *shape) pod(i, e int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(i), Name: fmt.Sprintf("pod-%d-%d", i, e), Labels: map[string]string{"app": fmt.Sprintf("app-%d", i)}},
		Spec: corev1.PodSpec{
			NodeName:   fmt.Sprintf("node-%d", i%50),
			Containers: []corev1.Container{{Name: "c", Image: "registry.example/app:1"}},
		},
	}
}

// rate prints how many things were done in what time.
func rate(what string, n int, d time.Duration) {
	fmt.Printf("%-16s %8d in %8.2f s  %9.0f/s\n", what, n, d.Seconds(), float64(n)/d.Seconds())
}

// cmdLoad creates, or deletes, a whole shape through the API.
func cmdLoad(args []string) error {
	fs := flag.NewFlagSet("load", flag.ExitOnError)
	kc := fs.String("kubeconfig", "", "")
	c := fs.Int("c", 64, "concurrent requests")
	conns := fs.Int("conns", 4, "HTTP/2 connections (client-go shares one per configuration)")
	pods := fs.Int("pods", 0, "pods of the first N services too (endpoints each, status.podIP set)")
	del := fs.Bool("delete", false, "delete the objects instead")
	var s shape
	s.flags(fs)
	fs.Parse(args)
	var cls []*kubernetes.Clientset
	for range *conns {
		cfg, err := protobufConfig(*kc)
		if err != nil {
			return err
		}
		// a Dial of its own keeps client-go's transport cache from sharing the connection
		cfg.Dial = dialer()
		cl, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return err
		}
		cls = append(cls, cl)
	}
	ctx := context.Background()
	cl := func(i int) *kubernetes.Clientset { return cls[i%len(cls)] }
	ign := func(err error) error {
		if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && *del {
			return nil
		}
		return err
	}
	zero := int64(0)
	do := metav1.DeleteOptions{GracePeriodSeconds: &zero}
	timed := func(what string, n int, f func(i int) error) error {
		t := time.Now()
		if err := parallel(*c, n, f); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		rate(what, n, time.Since(t))
		return nil
	}
	if !*del {
		if err := timed("namespaces", s.namespaces, func(i int) error {
			_, err := cl(i).CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns(i)}}, metav1.CreateOptions{})
			return ign(err)
		}); err != nil {
			return err
		}
	}
	if err := timed("services", s.services, func(i int) error {
		o := s.service(i)
		if *del {
			return ign(cl(i).CoreV1().Services(o.Namespace).Delete(ctx, o.Name, do))
		}
		_, err := cl(i).CoreV1().Services(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		return ign(err)
	}); err != nil {
		return err
	}
	if err := timed("endpointslices", s.services, func(i int) error {
		o := s.slice(i)
		if *del {
			return ign(cl(i).DiscoveryV1().EndpointSlices(o.Namespace).Delete(ctx, o.Name, do))
		}
		_, err := cl(i).DiscoveryV1().EndpointSlices(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		return ign(err)
	}); err != nil {
		return err
	}
	if *pods > 0 {
		return timed("pods+status", *pods*s.endpoints, func(k int) error {
			i, e := k/s.endpoints, k%s.endpoints
			o := s.pod(i, e)
			pc := cl(k).CoreV1().Pods(o.Namespace)
			if *del {
				return ign(pc.Delete(ctx, o.Name, do))
			}
			o, err := pc.Create(ctx, o, metav1.CreateOptions{})
			if err != nil {
				return ign(err)
			}
			ip := addr("172.16.0.0", k)
			o.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
			_, err = pc.UpdateStatus(ctx, o, metav1.UpdateOptions{})
			return err
		})
	}
	return nil
}

// cmdEtcdLoad writes what the API server would have stored: "k8s\0" + runtime.Unknown, protobuf.
// Do it before the API server starts; while it runs, use -batch 1 (one revision per object).
func cmdEtcdLoad(args []string) error {
	fs := flag.NewFlagSet("etcdload", flag.ExitOnError)
	ep := fs.String("etcd", "", "etcd URL, from testbed.json or etcd.json")
	c := fs.Int("c", 32, "concurrent transactions")
	batch := fs.Int("batch", 1000, "objects per transaction (all of one transaction share a resourceVersion)")
	ipaddr := fs.Bool("ipaddresses", true, "write the IPAddress object of every cluster IP too, as the API server's allocator does")
	clusterIPs := fs.String("first-cluster-ip", "10.100.0.0", "cluster IPs count up from here")
	del := fs.Bool("delete", false, "delete every key of this prefix instead")
	var s shape
	s.flags(fs)
	fs.Parse(args)
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{*ep}, DialTimeout: 5 * time.Second, MaxCallSendMsgSize: 64 << 20})
	if err != nil {
		return err
	}
	defer cl.Close()
	ser := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	ctx := context.Background()
	enc := func(o runtime.Object, m *metav1.ObjectMeta) (string, error) {
		m.UID, m.CreationTimestamp = uuid.NewUUID(), now
		gvks, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			return "", err
		}
		o.GetObjectKind().SetGroupVersionKind(gvks[0])
		var b bytes.Buffer
		err = ser.Encode(o, &b)
		return b.String(), err
	}
	type kv struct{ k, v string }
	total, bytesN := 0, 0
	put := func(what string, n int, f func(i int) ([]kv, error)) error {
		t := time.Now()
		per := (n + *batch - 1) / *batch
		var mu sync.Mutex
		cnt := 0
		if err := parallel(*c, per, func(b int) error {
			var ops []clientv3.Op
			sz := 0
			for i := b * *batch; i < n && i < (b+1)**batch; i++ {
				kvs, err := f(i)
				if err != nil {
					return err
				}
				for _, x := range kvs {
					if *del {
						ops = append(ops, clientv3.OpDelete(x.k))
					} else {
						ops = append(ops, clientv3.OpPut(x.k, x.v))
					}
					sz += len(x.v)
				}
			}
			mu.Lock()
			cnt += len(ops)
			bytesN += sz
			mu.Unlock()
			if len(ops) == 1 {
				_, err := cl.Do(ctx, ops[0])
				return err
			}
			_, err := cl.Txn(ctx).Then(ops...).Commit()
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		total += cnt
		rate(what, cnt, time.Since(t))
		return nil
	}
	t0 := time.Now()
	if err := put("namespaces", s.namespaces, func(i int) ([]kv, error) {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns(i), Labels: map[string]string{corev1.LabelMetadataName: s.ns(i)}},
			Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
		v, err := enc(o, &o.ObjectMeta)
		return []kv{{"/registry/namespaces/" + o.Name, v}}, err
	}); err != nil {
		return err
	}
	cip := func(i int) string { return addr(*clusterIPs, i+1) }
	single, cluster := corev1.IPFamilyPolicySingleStack, corev1.ServiceInternalTrafficPolicyCluster
	// IPAddresses first: a running API server would otherwise "repair" each Service
	if *ipaddr {
		if err := put("ipaddresses", s.services, func(i int) ([]kv, error) {
			if s.headless(i) {
				return nil, nil
			}
			o := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: cip(i), Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: "IPv4", networkingv1.LabelManagedBy: "ipallocator.k8s.io"}},
				Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: s.ns(i), Name: fmt.Sprintf("svc-%d", i)}}}
			v, err := enc(o, &o.ObjectMeta)
			return []kv{{"/registry/ipaddresses/" + o.Name, v}}, err
		}); err != nil {
			return err
		}
	}
	if err := put("services", s.services, func(i int) ([]kv, error) {
		o := s.service(i)
		o.Spec.SessionAffinity = corev1.ServiceAffinityNone
		o.Spec.IPFamilies, o.Spec.IPFamilyPolicy, o.Spec.InternalTrafficPolicy = []corev1.IPFamily{corev1.IPv4Protocol}, &single, &cluster
		if !s.headless(i) {
			o.Spec.ClusterIP = cip(i)
		}
		o.Spec.ClusterIPs = []string{o.Spec.ClusterIP}
		v, err := enc(o, &o.ObjectMeta)
		return []kv{{"/registry/services/specs/" + o.Namespace + "/" + o.Name, v}}, err
	}); err != nil {
		return err
	}
	if err := put("endpointslices", s.services, func(i int) ([]kv, error) {
		o := s.slice(i)
		o.Generation = 1
		v, err := enc(o, &o.ObjectMeta)
		return []kv{{"/registry/endpointslices/" + o.Namespace + "/" + o.Name, v}}, err
	}); err != nil {
		return err
	}
	rate("total", total, time.Since(t0))
	fmt.Printf("%.1f MB of values; %d endpoints\n", float64(bytesN)/1e6, s.services*s.endpoints)
	return nil
}

// cmdCompact drops etcd's history.
func cmdCompact(args []string) error {
	fs := flag.NewFlagSet("compact", flag.ExitOnError)
	ep := fs.String("etcd", "", "etcd URL")
	defrag := fs.Bool("defrag", false, "")
	fs.Parse(args)
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{*ep}, DialTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx := context.Background()
	r, err := cl.Get(ctx, "/registry/health")
	if err != nil {
		return err
	}
	if _, err := cl.Compact(ctx, r.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		return err
	}
	fmt.Println("compacted at", r.Header.Revision)
	if *defrag {
		_, err = cl.Defragment(ctx, *ep)
	}
	return err
}

// percentile is the p-quantile of some durations.
func percentile(d []time.Duration, p float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	s := append([]time.Duration{}, d...)
	sort.Slice(s, func(i, j int) bool { return s[i] < s[j] })
	return s[int(p*float64(len(s)-1))]
}

// stderrf prints one line on stderr.
func stderrf(f string, a ...any) { fmt.Fprintf(os.Stderr, strings.TrimSuffix(f, "\n")+"\n", a...) }
