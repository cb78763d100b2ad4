package main

import "fmt"

// manyMatches gives routes with as many matches in all rules together as are allowed, and with one more.
func manyMatches() []map[string]any {
	matches := func(count int, name string) []any {
		matches := make([]any, count)
		for index := range matches {
			matches[index] = map[string]any{"headers": []any{map[string]any{"name": "x-a", "value": fmt.Sprintf("%s%d", name, index)}}}
		}
		return matches
	}
	var objects []map[string]any
	for _, kind := range []string{"HTTPRoute", "GRPCRoute"} {
		for _, third := range []int{0, 1} {
			rules := []any{map[string]any{"matches": matches(64, "a")}, map[string]any{"matches": matches(64, "b")}}
			if third > 0 {
				rules = append(rules, map[string]any{"matches": matches(third, "c")})
			}
			objects = append(objects, map[string]any{
				"apiVersion": "gateway.networking.k8s.io/v1",
				"kind":       kind,
				"metadata":   map[string]any{"name": fmt.Sprintf("matches-%d", 128+third)},
				"spec":       map[string]any{"rules": rules},
			})
		}
	}
	return objects
}
