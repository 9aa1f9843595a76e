package experiment

import (
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"strconv"
	"strings"
)

// A chart's measures, in pixels.
const (
	chartWidth, chartHeight   = 960, 640
	chartLeft, chartRight     = 90, 930
	chartTop, chartBottom     = 60, 590
	legendLeft, legendSpacing = chartLeft + 20, 22
	dash                      = 12
)

// The colours are told apart in grey and by most of the colour-blind, too.
var (
	white   = color.RGBA{255, 255, 255, 255}
	black   = color.RGBA{0, 0, 0, 255}
	grey    = color.RGBA{220, 220, 220, 255}
	colours = []color.RGBA{{0x0b, 0x62, 0xa4, 255}, {0xd9, 0x54, 0x1a, 255}, {0x2e, 0x85, 0x40, 255}}
)

// WritePNG draws the chart.
func (c *Curves) WritePNG(w io.Writer) error {
	p := &picture{RGBA: image.NewRGBA(image.Rect(0, 0, chartWidth, chartHeight))}
	p.fill(p.Rect, white)
	p.maxX = c.X[len(c.X)-1]
	for _, l := range c.Lines {
		for _, y := range l.Y {
			p.maxY = max(p.maxY, y)
		}
	}
	p.maxY = max(p.maxY, 1)
	p.text(chartLeft, 24, c.Title, black)
	p.grid()
	for i, l := range c.Lines {
		p.curve(c.X, l, colours[i%len(colours)])
		y := chartTop + 10 + i*legendSpacing
		p.stroke(legendLeft, float64(y+7), legendLeft+50, float64(y+7), 0, l.Dashed, colours[i%len(colours)])
		p.text(legendLeft+62, y, l.Name, black)
	}
	return png.Encode(w, p)
}

// picture is an image with axes from 0 to the largest values.
type picture struct {
	*image.RGBA
	maxX, maxY float64
}

func (p *picture) x(v float64) float64 { return chartLeft + v/p.maxX*(chartRight-chartLeft) }

func (p *picture) y(v float64) float64 { return chartBottom - v/p.maxY*(chartBottom-chartTop) }

func (p *picture) fill(r image.Rectangle, c color.RGBA) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			p.SetRGBA(x, y, c)
		}
	}
}

// grid draws lines at round values, and writes those beside them.
func (p *picture) grid() {
	for v, step := 0.0, roundStep(p.maxY); v <= p.maxY; v += step {
		y := int(p.y(v))
		p.fill(image.Rect(chartLeft, y, chartRight, y+1), grey)
		label := strconv.FormatFloat(v, 'g', -1, 64)
		p.text(chartLeft-10-textWidth(label), y-7, label, black)
	}
	for v, step := 0.0, roundStep(p.maxX); v <= p.maxX; v += step {
		x := int(p.x(v))
		p.fill(image.Rect(x, chartTop, x+1, chartBottom), grey)
		label := strconv.FormatFloat(v, 'g', -1, 64)
		p.text(x-textWidth(label)/2, chartBottom+12, label, black)
	}
}

// roundStep divides an axis into four to ten parts.
func roundStep(length float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(length/4)))
	for _, times := range []float64{5, 2} {
		if length/(step*times) >= 4 {
			return step * times
		}
	}
	return step
}

// curve draws a line, and a square at its mark.
func (p *picture) curve(x []float64, l Line, c color.RGBA) {
	along := 0.0
	for i := 1; i < len(x); i++ {
		along = p.stroke(p.x(x[i-1]), p.y(l.Y[i-1]), p.x(x[i]), p.y(l.Y[i]), along, l.Dashed, c)
	}
	if l.Mark >= 0 {
		at := image.Pt(int(p.x(x[l.Mark])), int(p.y(l.Y[l.Mark])))
		p.fill(image.Rectangle{at, at}.Inset(-7), c)
	}
}

// stroke draws a straight line three pixels wide. Dashes go on from along, how
// long the curve is already; it returns how long it is then.
func (p *picture) stroke(x0, y0, x1, y1, along float64, dashed bool, c color.RGBA) float64 {
	length := math.Hypot(x1-x0, y1-y0)
	for d := 0.0; d <= length; d += .5 {
		if dashed && int((along+d)/dash)%2 == 1 {
			continue
		}
		part := d / max(length, 1)
		at := image.Pt(int(x0+part*(x1-x0)), int(y0+part*(y1-y0)))
		p.fill(image.Rectangle{at, at.Add(image.Pt(1, 1))}.Inset(-1), c)
	}
	return along + length
}

// glyphs are capital letters, digits and signs, three dots wide and five high: a
// digit in octal for each row.
var glyphs = map[rune]uint16{
	'0': 0o75557, '1': 0o26227, '2': 0o61247, '3': 0o61216, '4': 0o55711, '5': 0o74616, '6': 0o34757, '7': 0o71122, '8': 0o75757, '9': 0o75716,
	'A': 0o25755, 'B': 0o65656, 'C': 0o34443, 'D': 0o65556, 'E': 0o74647, 'F': 0o74644, 'G': 0o34553, 'H': 0o55755, 'I': 0o72227, 'J': 0o11152,
	'K': 0o55655, 'L': 0o44447, 'M': 0o57755, 'N': 0o65555, 'O': 0o25552, 'P': 0o65644, 'Q': 0o25563, 'R': 0o65655, 'S': 0o34216, 'T': 0o72222,
	'U': 0o55557, 'V': 0o55552, 'W': 0o55775, 'X': 0o55255, 'Y': 0o55222, 'Z': 0o71247,
	'.': 0o00002, ',': 0o00024, ':': 0o02020, '/': 0o11244, '-': 0o00700, '=': 0o07070,
}

// dot is the size of a glyph's dots.
const dot = 3

func textWidth(s string) int { return len(s) * 4 * dot }

// text writes in capitals, its upper left corner at a place.
func (p *picture) text(x, y int, s string, c color.RGBA) {
	for _, r := range strings.ToUpper(s) {
		for i := range 15 {
			if glyphs[r]>>(14-i)&1 == 1 {
				at := image.Pt(x+i%3*dot, y+i/3*dot)
				p.fill(image.Rectangle{at, at.Add(image.Pt(dot, dot))}, c)
			}
		}
		x += 4 * dot
	}
}
