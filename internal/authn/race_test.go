//go:build race

package authn

const raced = true
