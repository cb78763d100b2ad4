package standalone

import (
	"encoding/json"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"portolan.dev/conformance/standalone/storage"
)

// explanation is what `portolan explain -o json` says.
type explanation struct {
	Outcome struct {
		Kind       string `json:"kind"`
		Status     int    `json:"status"`
		GRPCStatus *int   `json:"grpcStatus"`
		Location   string `json:"location"`
		Choices    []struct {
			Weight    int      `json:"weight"`
			Cluster   *string  `json:"cluster"`
			Endpoints []string `json:"endpoints"`
			Authority string   `json:"authority"`
			Path      string   `json:"path"`
		} `json:"choices"`
	} `json:"outcome"`
}

// compareExplanations of all requests of a test that met the manifests as they still are.
func (c *cluster) compareExplanations(t *testing.T, traffic *traffic) {
	t.Helper()
	present := c.store.Written()
	gateways, pods := c.gateways(t), c.pods(t)
	slots := make(chan struct{}, runtime.NumCPU())
	var running sync.WaitGroup
	for _, e := range traffic.exchanges {
		if e.written != present {
			continue
		}
		c.explained.Add(1)
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			said, err := c.explain(e, gateways)
			if assert.NoError(t, err) {
				assert.NoError(t, e.disagrees(said, pods), "%s %s %q", e.method, e.url, e.headers)
			}
		})
	}
	running.Wait()
}

func (c *cluster) explain(e exchange, gateways map[string]string) (explanation, error) {
	var said explanation
	target, err := url.Parse(e.url)
	if err != nil {
		return said, err
	}
	arguments := []string{"explain", e.method, e.url, "-d", c.store.Manifests(), "-o", "json", "--gateway", gateways[target.Hostname()]}
	if e.sni != "" {
		arguments = append(arguments, "--sni", e.sni)
	}
	for _, header := range e.headers {
		arguments = append(arguments, "-H", header)
	}
	output, err := run(answers, c.program, arguments...)
	if err == nil {
		err = json.Unmarshal(output, &said)
	}
	return said, err
}

// disagrees tells how what was explained differs from what happened. What explain does not claim to know (how long a backend takes) is
// not held against it.
func (e exchange) disagrees(said explanation, pods map[string]string) error {
	outcome := said.Outcome
	switch outcome.Kind {
	case "Respond":
		if e.rpc && outcome.GRPCStatus != nil && *outcome.GRPCStatus == e.grpc && e.pod == "" {
			return nil
		}
		if !e.rpc && outcome.Status == e.status && e.pod == "" {
			return nil
		}
	case "Redirect":
		if outcome.Status == e.status && outcome.Location == e.location {
			return nil
		}
	case "Forward":
		const timeout = 504
		for _, choice := range outcome.Choices {
			switch {
			case choice.Weight == 0:
			case choice.Cluster == nil:
				if e.pod == "" && e.status == 500 {
					return nil
				}
			case len(choice.Endpoints) == 0:
				if e.pod == "" && e.status == 503 {
					return nil
				}
			case e.pod == "" && e.status == timeout:
				return nil
			default:
				for _, endpoint := range choice.Endpoints {
					same := e.rpc || (choice.Path == e.path && choice.Authority == e.host)
					if e.pod != "" && same && strings.HasPrefix(endpoint, pods[e.namespace+"/"+e.pod]+":") {
						return nil
					}
				}
			}
		}
	}
	return fmt.Errorf("explained as %+v\nhappened: %+v", outcome, e)
}

// gateways by address.
func (c *cluster) gateways(t *testing.T) map[string]string {
	names := map[string]string{}
	for _, object := range c.store.List(gatewayv1.GroupName, "gateways", "") {
		var gateway gatewayv1.Gateway
		assert.NoError(t, decode(object, &gateway))
		for _, address := range gateway.Status.Addresses {
			names[address.Value] = gateway.Namespace + "/" + gateway.Name
		}
	}
	return names
}

// pods' addresses by namespace/name.
func (c *cluster) pods(t *testing.T) map[string]string {
	addresses := map[string]string{}
	for _, object := range c.store.List("", "pods", "") {
		var pod corev1.Pod
		assert.NoError(t, decode(object, &pod))
		addresses[pod.Namespace+"/"+pod.Name] = pod.Status.PodIP
	}
	return addresses
}

func decode(object storage.Object, into any) error {
	return kruntime.DefaultUnstructuredConverter.FromUnstructured(object, into)
}
