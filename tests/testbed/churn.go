package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// dialer is a dial function of its own for each caller.
func dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: 10 * time.Second}).DialContext
}

// change is one line of the churn's record.
type change struct {
	SentUnixUS int64    `json:"sent_us"` // the request went out
	AckUnixUS  int64    `json:"ack_us"`  // the API server answered
	Namespace  string   `json:"namespace"`
	Service    string   `json:"service"`
	Slice      string   `json:"slice"`
	RV         string   `json:"rv"`
	Addresses  []string `json:"addresses"` // of ready endpoints, after the change
	Err        string   `json:"err,omitempty"`
}

// cmdChurn updates rate EndpointSlices a second for some seconds, on a fixed timetable: a slow
// server makes it late, which the summary says, not slower without a word.
func cmdChurn(args []string) error {
	fs := flag.NewFlagSet("churn", flag.ExitOnError)
	kc := fs.String("kubeconfig", "", "")
	perSec := fs.Float64("rate", 100, "updates a second")
	secs := fs.Float64("seconds", 10, "")
	ns := fs.String("namespace", "", "only this namespace")
	sel := fs.String("l", "", "label selector")
	limit := fs.Int("slices", 1000, "go round the first N slices")
	c := fs.Int("c", 64, "concurrent requests")
	out := fs.String("o", "", "write one JSON line per update here (- for stdout)")
	fs.Parse(args)
	cfg, err := protobufConfig(*kc)
	if err != nil {
		return err
	}
	cl, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ctx := context.Background()
	l, err := cl.DiscoveryV1().EndpointSlices(*ns).List(ctx, metav1.ListOptions{LabelSelector: *sel, Limit: int64(*limit)})
	if err != nil {
		return err
	}
	if len(l.Items) == 0 {
		return fmt.Errorf("no EndpointSlice matches")
	}
	var enc *json.Encoder
	var mu sync.Mutex
	if *out == "-" {
		enc = json.NewEncoder(os.Stdout)
	} else if *out != "" {
		f, err := os.Create(*out)
		if err != nil {
			return err
		}
		defer f.Close()
		enc = json.NewEncoder(f)
	}
	locks := make([]sync.Mutex, len(l.Items))
	var lat []time.Duration
	var maxLate time.Duration
	errs := 0
	n := int(*perSec * *secs)
	start := time.Now()
	if err := parallel(*c, n, func(k int) error {
		due := start.Add(time.Duration(float64(k) / *perSec * float64(time.Second)))
		time.Sleep(time.Until(due))
		late := time.Since(due)
		i := k % len(l.Items)
		locks[i].Lock()
		defer locks[i].Unlock()
		o := l.Items[i].DeepCopy()
		if len(o.Endpoints) == 0 {
			return nil
		}
		// a new address that no other update of this run gives
		o.Endpoints[0].Addresses = []string{addr("192.168.0.0", k%65536)}
		if o.AddressType == discoveryv1.AddressTypeIPv6 {
			o.Endpoints[0].Addresses = []string{fmt.Sprintf("fd00:c::%x", k%65536)}
		}
		sent := time.Now()
		got, err := cl.DiscoveryV1().EndpointSlices(o.Namespace).Update(ctx, o, metav1.UpdateOptions{})
		ack := time.Now()
		ch := change{SentUnixUS: sent.UnixMicro(), AckUnixUS: ack.UnixMicro(), Namespace: o.Namespace, Service: o.Labels[discoveryv1.LabelServiceName], Slice: o.Name}
		if err != nil {
			ch.Err = err.Error()
			if apierrors.IsConflict(err) {
				if g, e := cl.DiscoveryV1().EndpointSlices(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{}); e == nil {
					l.Items[i] = *g
				}
			}
		} else {
			l.Items[i] = *got
			ch.RV = got.ResourceVersion
			for _, e := range got.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					ch.Addresses = append(ch.Addresses, e.Addresses...)
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs++
		}
		lat = append(lat, ack.Sub(sent))
		if late > maxLate {
			maxLate = late
		}
		if enc != nil {
			return enc.Encode(ch)
		}
		return nil
	}); err != nil {
		return err
	}
	d := time.Since(start)
	stderrf("%d updates of %d slices in %.2f s (%.0f/s asked, %.0f/s done), %d errors; request p50 %v p99 %v; most late %v",
		n, len(l.Items), d.Seconds(), *perSec, float64(n)/d.Seconds(), errs, percentile(lat, .5), percentile(lat, .99), maxLate.Round(time.Millisecond))
	return nil
}

// cmdWatch times how long a client waits for everything: a WatchList stream or a paged LIST.
func cmdWatch(args []string) error {
	fs := flag.NewFlagSet("watch", flag.ExitOnError)
	kc := fs.String("kubeconfig", "", "")
	res := fs.String("resource", "endpointslices", "services or endpointslices")
	list := fs.Bool("list", false, "LIST instead")
	limit := fs.Int64("limit", 0, "page size of LIST")
	rv := fs.String("rv", "", "resourceVersion of LIST (0: from the watch cache)")
	jsn := fs.Bool("json", false, "JSON instead of protobuf")
	fs.Parse(args)
	mk := protobufConfig
	if *jsn {
		mk = restConfig
	}
	cfg, err := mk(*kc)
	if err != nil {
		return err
	}
	cl, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	t := time.Now()
	if *list {
		n, pages := 0, 0
		o := metav1.ListOptions{Limit: *limit, ResourceVersion: *rv}
		for {
			pages++
			if *res == "services" {
				l, err := cl.CoreV1().Services("").List(ctx, o)
				if err != nil {
					return err
				}
				n += len(l.Items)
				o.Continue = l.Continue
			} else {
				l, err := cl.DiscoveryV1().EndpointSlices("").List(ctx, o)
				if err != nil {
					return err
				}
				n += len(l.Items)
				o.Continue = l.Continue
			}
			if o.Continue == "" {
				break
			}
			o.ResourceVersion = ""
		}
		rate(fmt.Sprintf("LIST %s (%d pages)", *res, pages), n, time.Since(t))
		return nil
	}
	w, n, rvGot, err := watchList(ctx, cl, *res)
	if err != nil {
		return err
	}
	w.Stop()
	rate("WatchList "+*res, n, time.Since(t))
	fmt.Println("bookmark at resourceVersion", rvGot)
	return nil
}

// watchList opens a streaming list and returns the watch once it has everything, the number of objects and their version.
func watchList(ctx context.Context, cl *kubernetes.Clientset, res string) (watch.Interface, int, string, error) {
	yes := true
	o := metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	var w watch.Interface
	var err error
	if res == "services" {
		w, err = cl.CoreV1().Services("").Watch(ctx, o)
	} else {
		w, err = cl.DiscoveryV1().EndpointSlices("").Watch(ctx, o)
	}
	if err != nil {
		return nil, 0, "", err
	}
	n := 0
	for e := range w.ResultChan() {
		switch e.Type {
		case watch.Added:
			n++
		case watch.Bookmark:
			m := e.Object.(metav1.ObjectMetaAccessor).GetObjectMeta()
			if m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				return w, n, m.GetResourceVersion(), nil
			}
		default:
			w.Stop()
			return nil, n, "", fmt.Errorf("%s %v", e.Type, e.Object)
		}
	}
	return nil, n, "", fmt.Errorf("the watch ended after %d objects, without the bookmark", n)
}
