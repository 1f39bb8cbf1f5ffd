"""Does what an administrator of AWS does, by Amazon's own library, at the API that $AWS_ENDPOINT_URL names.

admin.py create NAME                    makes a hosted zone and prints its ID
admin.py put ID NAME TYPE VALUE...      makes or replaces a record set
admin.py weigh ID NAME TYPE VALUE...    makes a weighted set of each value
admin.py alias ID NAME TARGET           makes an alias of Amazon's own
admin.py fill ID ZONE COUNT             makes so many addresses hN.ZONE
admin.py delete ID NAME TYPE VALUE...   removes a record set
admin.py secret NAME TEXT               makes a secret of Secrets Manager, or gives it another text
admin.py arn NAME                       prints the ARN of a secret
admin.py check                          has the API look at keys from now on
"""

import os
import sys
import urllib.request

import boto3


def change(zone, *sets, action="UPSERT"):
    """Changes record sets."""
    batch = {"Changes": [{"Action": action, "ResourceRecordSet": one} for one in sets]}
    boto3.client("route53").change_resource_record_sets(HostedZoneId=zone, ChangeBatch=batch)


def record_set(name, kind, values, **more):
    """A record set."""
    return {"Name": name, "Type": kind, "TTL": 60, "ResourceRecords": [{"Value": value} for value in values], **more}


def main(what, *words):
    """Does one thing."""
    if what == "create":
        made = boto3.client("route53").create_hosted_zone(Name=words[0], CallerReference=words[0] + os.urandom(8).hex())
        zone = made["HostedZone"]["Id"].rsplit("/", 1)[-1]
        # The one that moto makes is no SOA record.
        soa = "ns-1.awsdns-1.org. awsdns-hostmaster.amazon.com. 1 7200 900 1209600 86400"
        change(zone, record_set(words[0], "SOA", [soa]))
        print(zone)
    elif what in ("put", "delete"):
        zone, name, kind, *values = words
        change(zone, record_set(name, kind, values), action="DELETE" if what == "delete" else "UPSERT")
    elif what == "weigh":
        zone, name, kind, *values = words
        for number, value in enumerate(values):
            change(zone, record_set(name, kind, [value], SetIdentifier=f"set {number}", Weight=10))
    elif what == "alias":
        zone, name, target = words
        change(zone, {"Name": name, "Type": "A", "AliasTarget": {"HostedZoneId": zone, "DNSName": target, "EvaluateTargetHealth": False}})
    elif what == "fill":
        zone, suffix, count = words
        sets = [record_set(f"h{n}.{suffix}", "A", [f"203.0.113.{n % 250}"]) for n in range(int(count))]
        for start in range(0, len(sets), 500):
            change(zone, *sets[start : start + 500])
    elif what == "secret":
        name, text = words
        secrets = boto3.client("secretsmanager")
        try:
            secrets.create_secret(Name=name, SecretString=text)
        except secrets.exceptions.ResourceExistsException:
            secrets.put_secret_value(SecretId=name, SecretString=text)
    elif what == "arn":
        print(boto3.client("secretsmanager").describe_secret(SecretId=words[0])["ARN"])
    elif what == "check":
        url = os.environ["AWS_ENDPOINT_URL"] + "/moto-api/reset-auth"
        urllib.request.urlopen(urllib.request.Request(url, data=b"0", headers={"content-type": "text/plain"}))
    else:
        sys.exit(__doc__)


main(*sys.argv[1:])
