// Package fake is a scriptable model provider: an http.Handler that speaks the
// OpenAI and Anthropic APIs, costs nothing, and is slow, limited, broken or
// faultless as it is told. It is one implementation for tests, for experiments,
// for the config dialect "simulator" and for "headgate simulate".
//
// # Behaviour
//
// A [Config] says how the server behaves; [Server.Configure] replaces it while
// in use, for an outage that begins and ends. A single request may override it
// in two ways; [Overrides] is the table of all names and values:
//
//	x-sim-first-token: 200ms                  a header, for each override
//	"model": "sim-small+tokens=20+fault=html" the model's name, for clients and gateways that drop headers
//
// In a model's name each part after a "+" that holds a "=" is an override; other
// parts belong to the name. The syntax has no slash, so a gateway that splits
// provider/model at the first slash leaves it whole. A header wins over the
// name. A wrong override is answered with 400 that says what is right. [Faults]
// lists the ways to misbehave.
//
// # Determinism
//
// The same seed and body give the same answer, byte for byte, send stamps aside:
// even "created" is made from the seed. Latencies, errors and resets are drawn
// from the seed and the request's number, so that a retry may fare better than
// the first try; with the override "seed" they depend on seed and body alone.
//
// # Control
//
// GET /_sim/stats and GET /_sim/requests answer what [Server.Stats] and
// [Server.Requests] do. POST /_sim/config?fault=html applies overrides to all
// later requests.
//
// Who should import this: tests, lab, cli and app. Never a room.
package fake
