package main

import (
	"context"
	"iter"

	pb "github.com/engined/engined/proto/enginepb"
)

// runs yields every run with the status, page by page.
func (s *shopProcess) runs(ctx context.Context, status pb.Status) iter.Seq2[*pb.RunInfo, error] {
	return func(yield func(*pb.RunInfo, error) bool) {
		page := ""
		for {
			res, err := s.client.List(ctx, &pb.ListRequest{Status: status, Page: page})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range res.Runs {
				if !yield(r, nil) {
					return
				}
			}
			if page = res.Next; page == "" {
				return
			}
		}
	}
}
