package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

func newInspectCommand() *cobra.Command {
	var options arrowzarr.InspectOptions
	var codecs []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect PATH",
		Short: "Describe an input of convert, or a Zarr hierarchy",
		Long: `Inspect prints the columns of PATH, anything that convert reads, and what convert makes of
each: its form in Zarr, its codec, another name if a Zarr node cannot have its own, or why
it is refused. PATH "-" is standard input.

Of a Zarr hierarchy it prints the arrays and, if restore can read it, the columns.

Inspect reads only the metadata of Parquet and Zarr, unless --stats asks for values.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, text := range codecs {
				if err := options.Convert.AddCodec(text); err != nil {
					return fmt.Errorf("--codec: %w", err)
				}
			}
			found, err := arrowzarr.Inspect(cmd.Context(), args[0], options)
			if err != nil {
				return err
			}
			if asJSON {
				return writeSummary(json.NewEncoder(cmd.OutOrStdout()).Encode(found))
			}
			return writeSummary(printContents(cmd.OutOrStdout(), found))
		},
	}
	appendHelp(cmd, `  arrow2zarr inspect flights.parquet --codec float=blosc:zstd
  arrow2zarr inspect flights.parquet --stats
  arrow2zarr inspect flights.zarr --json`)
	flags := cmd.Flags()
	addInputFlags(flags, &options.Convert.Input)
	flags.StringSliceVar(&options.Convert.Columns, "columns", nil, "the columns that convert would get")
	flags.StringSliceVar(&options.Convert.Exclude, "exclude", nil, "the columns that convert would leave out")
	flags.StringArrayVar(&codecs, "codec", nil, "the codecs that convert would get")
	flags.BoolVar(&options.Stats, "stats", false, "read the values: nulls, bytes, least, greatest, and number of categories")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func printContents(w io.Writer, c *arrowzarr.Contents) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s: %s, %s rows, %s stored\n\n", c.Path, c.Format, count(c.Rows), size(c.StoredBytes))
	isZarr := strings.HasPrefix(c.Format, "Zarr ")
	if isZarr {
		printArrays(out, c.Columns)
		if len(c.Table) > 0 {
			fmt.Fprintln(out)
		}
		printColumns(out, c.Table, true)
	} else {
		printColumns(out, c.Columns, false)
	}
	return out.Flush()
}

// printArrays prints the arrays of a hierarchy.
func printArrays(w io.Writer, arrays []arrowzarr.ColumnStats) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ARRAY\tTYPE\tSHAPE\tCHUNKS\tSHARDS\tCODECS\tSTORED\tRAW\tRATIO")
	for _, a := range arrays {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Name, a.Type, dims(a.Shape), dims(a.Chunks), dims(a.Shards),
			strings.Join(a.Codecs, " "), size(a.StoredBytes), size(a.RawBytes), quotient(a.RawBytes, a.StoredBytes))
	}
	_ = table.Flush() // the caller's writer keeps the error
}

// printColumns prints the columns of an input, or of the table in a hierarchy.
func printColumns(w io.Writer, columns []arrowzarr.ColumnStats, isZarr bool) {
	if len(columns) == 0 {
		return
	}
	stats := columns[0].Values != nil
	heads := []string{"COLUMN", "TYPE"}
	if !isZarr || stats {
		heads = append(heads, "NULLS")
	}
	if stats {
		heads = append(heads, "MIN", "MAX", "CATEGORIES")
	}
	if !isZarr {
		heads = append(heads, "CODECS", "STORED")
	}
	if !isZarr || stats {
		heads = append(heads, "RAW")
	}
	if isZarr {
		heads = append(heads, "NODE")
	} else {
		heads = append(heads, "BECOMES")
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.Join(heads, "\t"))
	for _, c := range columns {
		cells := []string{plain(c.Name), c.Type}
		if !isZarr || stats {
			cells = append(cells, count(c.Nulls))
		}
		if stats {
			cells = append(cells, short(c.Values.Min), short(c.Values.Max), count(c.Values.Distinct))
		}
		if !isZarr {
			cells = append(cells, strings.Join(c.Codecs, " "), size(c.StoredBytes))
		}
		if !isZarr || stats {
			cells = append(cells, size(c.RawBytes))
		}
		if isZarr {
			cells = append(cells, c.Becomes.Node)
		} else {
			cells = append(cells, becomes(c))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	_ = table.Flush()
}

// becomes says what convert makes of a column.
func becomes(c arrowzarr.ColumnStats) string {
	switch b := c.Becomes; {
	case b.Refused != "":
		return "refused: " + b.Refused
	case b.Form == "":
		return "left out"
	case b.Node != c.Name:
		return fmt.Sprintf("%s, %s, at %s", b.Form, b.Codec, b.Node)
	default:
		return fmt.Sprintf("%s, %s", b.Form, b.Codec)
	}
}

// plain returns a text for a cell of a table: without tabs, line breaks and the like.
func plain(text string) string {
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	return strconv.Quote(text)
}

// short is plain of a value, of at most 30 characters.
func short(text string) string {
	if text == "" {
		return "-"
	}
	if runes := []rune(text); len(runes) > 30 {
		text = string(runes[:29]) + "…"
	}
	return plain(text)
}

func dims(shape []int64) string {
	if shape == nil {
		return "-"
	}
	words := make([]string, len(shape))
	for i, d := range shape {
		words[i] = fmt.Sprint(d)
	}
	return strings.Join(words, "x")
}

// Unknown numbers are -1 and are printed as a dash.

func count(n int64) string {
	if n < 0 {
		return "-"
	}
	return humanize.Comma(n)
}

func size(n int64) string {
	if n < 0 {
		return "-"
	}
	return humanize.IBytes(uint64(n))
}

func quotient(raw, stored int64) string {
	if raw < 0 || stored <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(raw)/float64(stored))
}
