// Package race tells tests whether the race detector watches. It allocates, has
// memory of its own and is several times slower, so that budgets of time and
// memory do not hold under it: what skips or does less for that runs in whole in
// make test-bare. Enabled is whether it watches, and Slower how much less the
// slow tests do under it. Only tests use it.
package race
