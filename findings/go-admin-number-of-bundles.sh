#!/usr/bin/env bash
# pulsaradmin (Go) cannot create a namespace with a number of bundles on Pulsar 4.2.4.
#
# Versions: github.com/apache/pulsar-client-go v0.19.0, Pulsar broker 4.2.4.
#
# Namespaces().CreateNsWithNumBundles(name, 8) sends all fields of its policies, and those without a value as null, among
# them "replication_clusters": null. The broker reads the field without a check, and answers 500 with a
# NullPointerException in place of 204. CreateNamespace(name) works; so does a body with the number of bundles alone.
#
# Output on 2026-11-28:
#   CreateNamespace: created
#   CreateNsWithNumBundles: code: 500, "nsPolicies.replication_clusters" is null
#   bundles alone: 204
source "$(dirname "$0")/support/broker.bash"
need go
start_broker
mkdir "$work/program"
cd "$work/program"
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"regexp"

	"github.com/apache/pulsar-client-go/pulsaradmin"
)

func outcome(err error) string {
	if err == nil {
		return "created"
	}
	code := regexp.MustCompile(`code: \d+`).FindString(err.Error())
	return code + ", " + regexp.MustCompile(`"nsPolicies\.\w+" is null`).FindString(err.Error())
}

func main() {
	admin, err := pulsaradmin.NewClient(&pulsaradmin.Config{WebServiceURL: os.Args[1]})
	if err != nil {
		panic(err)
	}
	fmt.Println(outcome(admin.Namespaces().CreateNamespace("public/plain")))
	fmt.Println(outcome(admin.Namespaces().CreateNsWithNumBundles("public/bundles", 8)))
}
GO
build_go github.com/apache/pulsar-client-go v0.19.0
./program "$ADMIN_URL" > output
expect CreateNamespace created "$(sed -n 1p output)"
expect CreateNsWithNumBundles 'code: 500, "nsPolicies.replication_clusters" is null' "$(sed -n 2p output)"
expect "bundles alone" 204 "$(curl -s -o response -w '%{http_code}' -X PUT -H 'Content-Type: application/json' \
    -d '{"bundles": {"numBundles": 8}}' "$ADMIN_URL/admin/v2/namespaces/public/alone")"
