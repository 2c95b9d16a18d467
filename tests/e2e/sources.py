"""Sources in S3, as somebody else's program puts them there: nothing of datamon lies beside them."""


def put_objects(s3, url, contents):
    """Objects below an s3:// URL, given as {name: text}; gives the URL."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    client = s3.client()
    for name, text in contents.items():
        client.put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=text.encode())
    return url
