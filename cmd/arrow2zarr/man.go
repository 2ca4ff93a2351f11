package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// newManCommand returns the command that writes the man pages of a release.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the man pages to a folder",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := newRoot(cmd.OutOrStdout(), cmd.ErrOrStderr())
			root.DisableAutoGenTag = true // the date would differ from build to build
			for _, c := range root.Commands() {
				// A page has no template of help, so examples and exit codes go to the text.
				if _, examples, found := strings.Cut(c.HelpTemplate(), "\nExamples:\n"); found {
					examples, _, _ = strings.Cut(examples, "\n"+exitCodesHelp)
					c.Example = examples
					c.Long += "\n" + exitCodesHelp
				}
			}
			header := &doc.GenManHeader{Section: "1", Manual: "Quiver", Source: "Quiver " + root.Version}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return &arrowzarr.Error{Part: arrowzarr.PartOutput, Err: fmt.Errorf("writing the man pages: %w", err)}
			}
			return nil
		},
	}
}
