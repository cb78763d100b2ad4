package standalone

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gowebsocket "golang.org/x/net/websocket"
	"sigs.k8s.io/gateway-api/conformance/utils/grpc"
	"sigs.k8s.io/gateway-api/conformance/utils/roundtripper"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/conformance/utils/websocket"

	"portolan.dev/conformance/standalone/storage"
)

// traffic notes the requests that the suite's own clients send, and the answers.
type traffic struct {
	http  roundtripper.RoundTripper
	store *storage.Store

	mutex     sync.Mutex
	count     int
	exchanges map[string]exchange // the last of each request
}

// exchange is a request and its answer.
type exchange struct {
	method, url, sni string
	headers          []string // "Name: value", ordered

	status     int // of HTTP
	grpc       int // code, when it is an RPC
	rpc        bool
	location   string
	namespace  string
	pod        string // empty: no echo server answered
	path, host string // as the echo server saw them

	written int64 // the manifests' count at that time
}

func noteTraffic(options *suite.ConformanceOptions, store *storage.Store) *traffic {
	noted := &traffic{http: &roundtripper.DefaultRoundTripper{TimeoutConfig: options.TimeoutConfig}, store: store}
	noted.forget()
	options.RoundTripper = noted
	options.GRPCClient = notedRPCs{noted}
	options.WebSocketDialer = notedDialer{noted}
	return noted
}

// forget what was sent so far.
func (c *traffic) forget() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.count, c.exchanges = 0, map[string]exchange{}
}

func (c *traffic) sent() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.count
}

func (c *traffic) note(e exchange) {
	slices.Sort(e.headers)
	// The suite numbers requests that are otherwise the same.
	if parsed, err := url.Parse(e.url); err == nil {
		query := parsed.Query()
		query.Del("gateway-api-conformance-request-id")
		parsed.RawQuery = query.Encode()
		key := fmt.Sprint(e.method, parsed, e.sni, e.headers)
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.exchanges[key] = e
	}
}

func (c *traffic) counted() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.count++
}

// CaptureRoundTrip implements roundtripper.RoundTripper.
func (c *traffic) CaptureRoundTrip(request roundtripper.Request) (*roundtripper.CapturedRequest, *roundtripper.CapturedResponse, error) {
	c.counted()
	written := c.store.Written()
	seen, response, err := c.http.CaptureRoundTrip(request)
	// A redirect that is followed shows the answer to another request.
	if err == nil && request.UnfollowRedirect == roundtripper.IsRedirect(response.StatusCode) {
		e := exchange{
			method: request.Method, url: request.URL.String(), sni: request.ServerName, written: written, status: response.StatusCode,
			namespace: seen.Namespace, pod: seen.Pod, path: seen.Path, host: seen.Host,
		}
		if e.method == "" {
			e.method = "GET"
		}
		if request.Host != "" {
			e.headers = append(e.headers, "Host: "+request.Host)
		}
		for name, values := range request.Headers {
			e.headers = append(e.headers, name+": "+values[0])
		}
		if location := response.Headers["Location"]; len(location) == 1 {
			e.location = location[0]
		}
		c.note(e)
	}
	return seen, response, err
}

// notedRPCs uses a new client, so a new connection, for each call, as the suite does when it is given none.
type notedRPCs struct{ *traffic }

// SendRPC implements grpc.Client.
func (c notedRPCs) SendRPC(t *testing.T, address string, expected grpc.ExpectedResponse, timeout time.Duration) (*grpc.Response, error) {
	c.counted()
	written := c.store.Written()
	client := &grpc.DefaultClient{}
	defer client.Close()
	response, err := client.SendRPC(t, address, expected, timeout)
	if err == nil {
		method := "EchoThree"
		switch {
		case expected.EchoRequest != nil:
			method = "Echo"
		case expected.EchoTwoRequest != nil:
			method = "EchoTwo"
		}
		e := exchange{
			method: "POST", url: "http://" + address + "/gateway_api_conformance.echo_basic.grpcecho.GrpcEcho/" + method,
			headers: []string{"Content-Type: application/grpc", "TE: trailers"}, written: written, rpc: true, grpc: int(response.Code),
		}
		if request := expected.RequestMetadata; request != nil {
			if request.Authority != "" {
				e.headers = append(e.headers, "Host: "+request.Authority)
			}
			for name, value := range request.Metadata {
				e.headers = append(e.headers, strings.ToLower(name)+": "+value)
			}
		}
		if context := response.Response.GetAssertions().GetContext(); context != nil {
			e.namespace, e.pod = context.GetNamespace(), context.GetPod()
		}
		c.note(e)
	}
	return response, err
}

// Close implements grpc.Client.
func (c notedRPCs) Close() {}

type notedDialer struct{ *traffic }

// Dial implements websocket.Dialer.
func (c notedDialer) Dial(url, protocol, origin string) (*gowebsocket.Conn, error) {
	c.counted()
	return (&websocket.DefaultDialer{}).Dial(url, protocol, origin)
}
