module github.com/headgate-ai/headgate

go 1.26.7
