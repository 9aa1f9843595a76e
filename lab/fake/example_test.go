package fake_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/headgate-ai/headgate/lab/fake"
)

// The text follows from seed and body, so even an example may print it. A
// change of this output changes what every recorded experiment has seen.
func ExampleNew() {
	s := fake.New(fake.Default())
	ts := httptest.NewServer(s)
	defer ts.Close()

	body := `{"model":"sim-small+tokens=8","messages":[{"role":"user","content":"Who opens the gate?"}]}`
	res, err := http.Post(ts.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	json.NewDecoder(res.Body).Decode(&answer)
	fmt.Println(answer.Choices[0].Message.Content)
	fmt.Println(s.Requests()[0].Model)
	// Output:
	// Turns along share then river say iron does
	// sim-small+tokens=8
}
