package standalone

import (
	"sync/atomic"
	"testing"
	"time"

	gowebsocket "golang.org/x/net/websocket"
	"sigs.k8s.io/gateway-api/conformance/utils/grpc"
	"sigs.k8s.io/gateway-api/conformance/utils/roundtripper"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/conformance/utils/websocket"
)

// traffic counts the requests that the suite's own clients send, to know which tests look at status only.
type traffic struct {
	http  roundtripper.RoundTripper
	count atomic.Int64
}

func countTraffic(options *suite.ConformanceOptions) *traffic {
	counted := &traffic{http: &roundtripper.DefaultRoundTripper{TimeoutConfig: options.TimeoutConfig}}
	options.RoundTripper = counted
	options.GRPCClient = countedRPCs{counted}
	options.WebSocketDialer = countedDialer{counted}
	return counted
}

// CaptureRoundTrip implements roundtripper.RoundTripper.
func (c *traffic) CaptureRoundTrip(request roundtripper.Request) (*roundtripper.CapturedRequest, *roundtripper.CapturedResponse, error) {
	c.count.Add(1)
	return c.http.CaptureRoundTrip(request)
}

// countedRPCs uses a new client, so a new connection, for each call, as the suite does when it is given none.
type countedRPCs struct{ *traffic }

// SendRPC implements grpc.Client.
func (c countedRPCs) SendRPC(t *testing.T, address string, expected grpc.ExpectedResponse, timeout time.Duration) (*grpc.Response, error) {
	c.count.Add(1)
	client := &grpc.DefaultClient{}
	defer client.Close()
	return client.SendRPC(t, address, expected, timeout)
}

// Close implements grpc.Client.
func (c countedRPCs) Close() {}

type countedDialer struct{ *traffic }

// Dial implements websocket.Dialer.
func (c countedDialer) Dial(url, protocol, origin string) (*gowebsocket.Conn, error) {
	c.count.Add(1)
	return (&websocket.DefaultDialer{}).Dial(url, protocol, origin)
}
