"""The events: their Avro schemas, classes, rules, bytes and JSON form."""
