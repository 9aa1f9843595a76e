package load

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// The plot's measures in pixels: two panels, one above the other.
const (
	plotWidth  = 900
	plotHeight = 760
	panelLeft  = 80
	panelRight = 860
	panelHigh  = 270
	upperTop   = 70
	lowerTop   = 430
)

// colours are told apart in grey and by most of the colour-blind, too.
var colours = []string{"#0b62a4", "#d9541a", "#2e8540", "#7a3b94"}

// WriteSVG draws percentile curves, and below them the throughput over time.
func (r *Report) WriteSVG(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		plotWidth, plotHeight, plotWidth, plotHeight)
	fmt.Fprintf(b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", plotWidth, plotHeight)
	text(b, panelLeft, 26, "start", "bold", r.Target)
	text(b, panelLeft, 44, "start", "normal", fmt.Sprintf("%s loop, %d requests, %d failed, %.1f/s", r.Loop, r.Requests, r.Failed, r.RequestsPerSecond))
	r.percentilePanel(b)
	r.throughputPanel(b)
	fmt.Fprintln(b, "</svg>")
	return b.Flush()
}

// panel maps values to places.
type panel struct {
	b                      *bufio.Writer
	top                    float64
	minX, maxX, minY, maxY float64
	logY                   bool
}

func (p *panel) x(v float64) float64 {
	return panelLeft + (v-p.minX)/(p.maxX-p.minX)*(panelRight-panelLeft)
}

func (p *panel) y(v float64) float64 {
	low, high := p.minY, p.maxY
	if p.logY {
		v, low, high = math.Log10(max(v, p.minY)), math.Log10(low), math.Log10(high)
	}
	return p.top + panelHigh - (v-low)/(high-low)*panelHigh
}

// percentilePanel has the share on an axis that gives each further nine the
// same room, and times on a logarithmic one.
func (r *Report) percentilePanel(b *bufio.Writer) {
	p := &panel{b: b, top: upperTop, maxX: 1, minY: math.Inf(1), maxY: 0, logY: true}
	nines := func(share float64) float64 { return -math.Log10(1 - share) }
	for _, c := range r.curves {
		for _, pt := range c.points {
			p.maxX = max(p.maxX, nines(pt[0]))
			if v := max(pt[1], 1e-3); pt[0] > 0 { // the least of all says nothing
				p.minY, p.maxY = min(p.minY, v), max(p.maxY, v)
			}
		}
	}
	if p.maxY == 0 {
		p.minY, p.maxY = .1, 1
	}
	p.minY, p.maxY = math.Pow(10, math.Floor(math.Log10(p.minY))), math.Pow(10, math.Ceil(math.Log10(p.maxY*1.0001)))
	p.frame("milliseconds", "percentile")
	for v := p.minY; v <= p.maxY*1.001; v *= 10 {
		p.gridY(v)
	}
	for i, label := range []string{"0", "90", "99", "99.9", "99.99"} {
		if float64(i) <= p.maxX+.001 {
			p.gridX(float64(i), label)
		}
	}
	for i, c := range r.curves {
		line := make([][2]float64, 0, len(c.points))
		for _, pt := range c.points {
			line = append(line, [2]float64{nines(pt[0]), pt[1]})
		}
		p.line(line, i, c.name)
	}
}

func (r *Report) throughputPanel(b *bufio.Writer) {
	p := &panel{b: b, top: lowerTop, maxX: 1e-3, maxY: 1}
	var ok, failed [][2]float64
	for _, pt := range r.Series {
		p.maxX, p.maxY = max(p.maxX, pt.At), max(p.maxY, pt.OK, pt.Failed)
		ok, failed = append(ok, [2]float64{pt.At, pt.OK}), append(failed, [2]float64{pt.At, pt.Failed})
	}
	step := niceStep(p.maxY)
	p.maxY = step * math.Ceil(p.maxY/step)
	p.frame("requests/s", "seconds")
	for v := 0.0; v <= p.maxY*1.001; v += step {
		p.gridY(v)
	}
	for v, step := 0.0, niceStep(p.maxX); v <= p.maxX*1.001; v += step {
		p.gridX(v, number(v))
	}
	p.line(ok, 0, "ok")
	p.line(failed, 1, "failed")
}

// niceStep divides an axis at 1, 2 or 5 times a power of ten.
func niceStep(top float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(top)))
	for _, f := range []float64{.1, .2, .5, 1} {
		if top/(unit*f) <= 8 {
			return unit * f
		}
	}
	return unit * 2
}

func (p *panel) frame(yTitle, xTitle string) {
	fmt.Fprintf(p.b, `<rect x="%d" y="%.1f" width="%d" height="%d" fill="none" stroke="#444444"/>`+"\n", panelLeft, p.top, panelRight-panelLeft, panelHigh)
	text(p.b, panelLeft, p.top-6, "start", "normal", yTitle)
	text(p.b, panelRight, p.top+panelHigh+34, "end", "normal", xTitle)
}

func (p *panel) gridY(v float64) {
	y := p.y(v)
	fmt.Fprintf(p.b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/>`+"\n", panelLeft, y, panelRight, y)
	text(p.b, panelLeft-8, y+4, "end", "normal", number(v))
}

func (p *panel) gridX(v float64, label string) {
	x := p.x(v)
	fmt.Fprintf(p.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#dddddd"/>`+"\n", x, p.top, x, p.top+panelHigh)
	text(p.b, x, p.top+panelHigh+18, "middle", "normal", label)
}

// line draws one curve and its place in the legend.
func (p *panel) line(points [][2]float64, i int, name string) {
	var path strings.Builder
	for _, pt := range points {
		fmt.Fprintf(&path, "%.1f,%.1f ", p.x(pt[0]), p.y(pt[1]))
	}
	colour := colours[i%len(colours)]
	fmt.Fprintf(p.b, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`+"\n", colour, strings.TrimSpace(path.String()))
	// The legend is above the frame, where no curve goes.
	x, y := panelRight-440+float64(i)*110, p.top-6
	fmt.Fprintf(p.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="3"/>`+"\n", x, y-4, x+24, y-4, colour)
	text(p.b, x+30, y, "start", "normal", name)
}

func text(b *bufio.Writer, x, y float64, anchor, weight, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" font-weight="%s" fill="#222222">`, x, y, anchor, weight)
	_ = xml.EscapeText(b, []byte(s)) // errors come up at Flush
	fmt.Fprintln(b, "</text>")
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
