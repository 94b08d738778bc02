// Package dashboard holds the Grafana dashboard against the names that the
// Prometheus exporter really produces.
package dashboard
