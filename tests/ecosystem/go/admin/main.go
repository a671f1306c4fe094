// Administer tenants, namespaces, topics and subscriptions with pulsaradmin, and print the responses.
//
//	admin HTTP_URL TENANT TOPIC
//
// TOPIC has two messages and the subscription `audit`. The program deletes everything that it creates.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/apache/pulsar-client-go/pulsaradmin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	url, tenant, topic := os.Args[1], os.Args[2], *must(utils.GetTopicName(os.Args[3]))
	namespace := tenant + "/orders"
	seen := map[string]any{}
	admin := must(pulsaradmin.NewClient(&pulsaradmin.Config{WebServiceURL: url}))

	clusters := must(admin.Clusters().List())
	seen["clusters"] = clusters
	seen["health"] = admin.Brokers().HealthCheck()
	check(admin.Tenants().Create(utils.TenantData{Name: tenant, AllowedClusters: clusters}))
	seen["tenant"] = must(admin.Tenants().Get(tenant)).AllowedClusters

	// CreateNsWithNumBundles fails with Pulsar 4.2.4: see findings/go-admin-number-of-bundles.sh.
	check(admin.Namespaces().CreateNamespace(namespace))
	check(admin.Namespaces().SetNamespaceMessageTTL(namespace, 3600))
	check(admin.Namespaces().SetRetention(namespace, utils.NewRetentionPolicies(60, 100)))
	seen["ttl"] = must(admin.Namespaces().GetNamespaceMessageTTL(namespace))
	seen["retention"] = must(admin.Namespaces().GetRetention(namespace))
	seen["bundles"] = must(admin.Namespaces().GetPolicies(namespace)).Bundles.NumBundles
	seen["namespaces"] = must(admin.Namespaces().GetNamespaces(tenant))

	partitioned := *must(utils.GetTopicName("persistent://" + namespace + "/partitioned"))
	check(admin.Topics().Create(partitioned, 3))
	check(admin.Topics().Update(partitioned, 5))
	seen["partitions"] = must(admin.Topics().GetMetadata(partitioned)).Partitions
	check(admin.Subscriptions().Create(partitioned, "audit", utils.Earliest))
	seen["subscriptions"] = must(admin.Subscriptions().List(partitioned))

	backlog := func() int64 { return must(admin.Topics().GetStats(topic)).Subscriptions["audit"].MsgBacklog }
	seen["backlog"] = backlog()
	peeked := []string{}
	for _, message := range must(admin.Subscriptions().PeekMessages(topic, "audit", 2)) {
		peeked = append(peeked, string(message.Payload))
	}
	seen["peeked"] = peeked
	check(admin.Subscriptions().SkipMessages(topic, "audit", 1))
	seen["skipped"] = backlog()
	check(admin.Subscriptions().ResetCursorToMessageID(topic, "audit", utils.Earliest))
	seen["reset"] = backlog()
	check(admin.Subscriptions().ClearBacklog(topic, "audit"))
	seen["cleared"] = backlog()

	check(admin.Subscriptions().Delete(partitioned, "audit"))
	check(admin.Topics().Delete(partitioned, false, false))
	check(admin.Namespaces().DeleteNamespace(namespace))
	check(admin.Tenants().Delete(tenant))
	seen["deleted"] = !slices.Contains(must(admin.Tenants().List()), tenant)
	check(json.NewEncoder(os.Stdout).Encode(seen))
}
