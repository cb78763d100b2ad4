// Package standalone runs the official Gateway API conformance suite against `portolan run`, without Kubernetes.
//
// What is judged is the real thing: the suite's tests as published, a `portolan` binary that reads a directory of manifests, stock
// Envoys, the suite's own echo servers as backends, real requests. What is played is only what Kubernetes would do around it:
//
//   - storage: objects, kept in memory, and a file for each in the directory that Portolan watches
//   - kubelet: Deployments of the echo server as processes, EndpointSlices for Services that select them
//   - process: statuses, read from Portolan's admin endpoint; in a cluster Portolan writes them itself
//
// What this cannot show: anything about Kubernetes itself (watches, leases, provisioning, access control).
//
// TestSuite is the suite. Of each test it looks at more than the suite does: the whole status of its objects, or, where it sends
// requests, whether `portolan explain` agrees with what Envoy did with every one of them. TestManifests puts every manifest of it, of all kinds, through `portolan check`, `portolan translate` and
// Envoy's own validation. Both need PORTOLAN (the binary) and PORTOLAN_ENVOY in the environment, and root or the right to bind port 80.
package standalone
