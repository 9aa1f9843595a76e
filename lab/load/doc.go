// Package load asks a model's API for answers at a fixed rate or with a fixed
// number of connections, checks every answer, and tells how long each part
// took.
//
// # What is honest about it
//
// In the open loop requests have times at which they are due, whatever the
// server does, and latency is charged from that time: a server that stalls for
// a second is charged for everything that fell due in that second, though few
// requests were on their way (no coordinated omission). The time from the
// sending alone is reported beside it, as service time.
//
// Streams are read event by event. Where tokens carry the simulator's stamps
// (~SEQ.UNIXNANOS~) every token must come once and in order, and the time since
// its stamp is the delay that everything between adds. The end mark must come
// in any case.
//
// Everything is bounded, in time and in number.
//
// Who should import this: cli, for "headgate load", and lab/experiment.
package load
