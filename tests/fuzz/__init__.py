"""A grammar fuzzer for a live server: `make fuzz ARGS="--seconds 600 --seed 7"`.

Every request is a pure function of the seed and its number, so a failure is reproduced from these two, or from the file that the
minimiser writes (`--replay FILE`). In reading order:

    kinds        what is served: every built-in kind, and custom kinds that the fuzzer defines
    definitions  random definitions of custom kinds
    values       JSON values: made from schemas, and made to be hostile
    body         how a value becomes bytes: JSON, YAML, protobuf, and damaged forms of them
    request      one request, and its form in a reproducer
    rawhttp      broken HTTP
    grammar      seed and number → request
    connection   HTTP over TLS, without retries, with every end of a connection told
    monitor      the server's process: log, memory, CPU of its event loop; and the canary client
    model        acknowledged writes, compared with watches, lists and gets
    findings     what counts as a failure
    driver       sends requests, takes measurements, compares
    minimise     the shortest sequence and the smallest bodies that still fail
    session      servers one after the other: runs, replays, trials
    report       what is printed
    planted      servers with a bug in them, for the tests of the fuzzer itself
"""
