// Command berth leases scarce slots so that every one comes back.
package main

import (
	"os"

	"github.com/berth-dev/berth/internal/cli"
)

func main() { os.Exit(cli.Main()) }
