package config

import "github.com/cpnode/cpnode/purger/objectstore"

var workerKeys = []Key{
	{"topic.purger.interval.ms", false, func(c *Config) value { return millis(&c.TopicPurger.Interval, 1, year) },
		"How often the leader purges deleted topics; after a cycle that its cap ended, a tenth of it."},
	{"topic.purger.max.batches.per.cycle", false, func(c *Config) value { return count(&c.TopicPurger.MaxBatchesPerCycle, 0, unbounded) },
		"Batches that one cycle takes; 0: all."},
	{"file.cleaner.interval.ms", false, func(c *Config) value { return millis(&c.FileCleaner.Interval, 1, year) },
		"How often the leader deletes objects that hold no batch any more, where there is an object store; after a cycle that its cap ended, a tenth of it."},
	{"file.cleaner.retention.period.ms", false, func(c *Config) value { return millis(&c.FileCleaner.Retention, 0, year) },
		"How long a file has held no batch before its object is deleted: readers may still be at it."},
	{"file.cleaner.max.files.per.cycle", false, func(c *Config) value { return count(&c.FileCleaner.MaxFilesPerCycle, 0, unbounded) },
		"Objects that one cycle deletes; 0: all."},
	{"retention.enforcement.interval.ms", false, func(c *Config) value { return millis(&c.Pruner.RetentionInterval, 1, year) },
		"How long after one enforcement of a partition's retention the next comes on average; each time it is drawn from 0 to twice as long."},
	{"retention.enforcement.max.batches.per.request", false, func(c *Config) value { return count(&c.Pruner.RetentionMaxBatches, 0, unbounded) },
		"Batches of one partition that one enforcement takes; 0: all."},
	{"consolidation.cleanup.interval.ms", false, func(c *Config) value { return millis(&c.Pruner.ConsolidationInterval, 1, year) },
		"How often the leader prunes batches that tiered storage holds."},
	{"consolidation.cleanup.max.batches.per.request", false, func(c *Config) value { return count(&c.Pruner.ConsolidationMaxBatches, 0, unbounded) },
		"Batches of one partition that one prune takes; 0: all."},
	{"cross.tier.log.start.report.interval.ms", false, func(c *Config) value { return millis(&c.Pruner.ReportInterval, 1, year) },
		"How long the leader gathers the log starts of tiered storage that brokers report, before it writes down those that advanced."},
	{"producer.id.expiration.ms", false, func(c *Config) value { return millis(&c.Pruner.ProducerExpiration, 0, 10*year) },
		"How long an idempotent producer may be idle before it is forgotten; 0: for ever."},
}

var objectStoreKeys = []Key{
	{"object.store.type", false, func(c *Config) value {
		return oneOf{&c.ObjectStore.Type, []string{NoObjectStore, objectstore.TypeDirectory, objectstore.TypeS3, objectstore.TypeMemory}}
	},
		"Where the objects of files lie. none: others delete them. memory: nowhere, for tests."},
	{"object.store.directory", false, func(c *Config) value { return text{&c.ObjectStore.Directory, "path"} },
		"Of type directory: the directory, which must exist."},
	{"object.store.endpoint", false, func(c *Config) value { return text{&c.ObjectStore.S3.Endpoint, "URL"} },
		"Of type s3: scheme, host and port."},
	{"object.store.bucket", false, func(c *Config) value { return text{&c.ObjectStore.S3.Bucket, ""} },
		"Its bucket, which must exist."},
	{"object.store.region", false, func(c *Config) value { return text{&c.ObjectStore.S3.Region, ""} },
		"Its region; empty: asked of the endpoint."},
	{"object.store.access.key", false, func(c *Config) value { return text{&c.ObjectStore.S3.AccessKey, ""} },
		"Name of the key that signs requests; empty: credentials are looked for where AWS's tools do."},
	{"object.store.secret.key.file", false, func(c *Config) value { return text{&c.ObjectSecretFile, "path"} },
		"File that holds the secret of that key, and nothing else."},
	{"object.store.prefix", false, func(c *Config) value { return text{&c.ObjectStore.Prefix, ""} },
		"What is put before every object key, as it is: a path ends in a slash."},
}
