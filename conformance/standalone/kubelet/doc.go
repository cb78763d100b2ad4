// Package kubelet plays the node and the endpoint controller for the suite's backends. A Deployment of the suite's echo server becomes
// that many processes of the real program, each with a loopback address of its own on which it listens at the ports it has in a
// container; a Service that selects them becomes an EndpointSlice. No containers, no network of its own, no restarts: a backend that
// ends stays ended and not ready.
package kubelet
