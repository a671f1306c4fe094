"""The report: its totals, and its JSON as documented in docs/replay.md."""

import json


def test_totals_equal_the_number_of_responses(small_captures, play):
    report = play(small_captures / "flex" / "01-produce-consume.pcap")
    rows = {name: numbers for name, *numbers, _ in report.rows()}
    assert rows["MESSAGE"] == [35, 0, 0]
    assert sum(rows["SEND_RECEIPT"]) == 35
    assert rows["LOOKUP_RESPONSE"] == [0, 3, 0]
    assert report.rules["address"] == 3
    assert report.good
    assert report.first(5) == []


def test_a_response_with_two_reasons_counts_once(small_captures, play):
    report = play(small_captures / "python" / "10-shared-redelivery.pcap")
    rows = {name: numbers for name, *numbers, _ in report.rows()}
    assert (
        sum(rows["MESSAGE"])
        == len({one["answer"] for one in report.differences if one["command"] == "MESSAGE"}) + (report.equal["MESSAGE"])
    )


def test_json(small_captures, play, faults):
    report = play(small_captures / "flex" / "01-produce-consume.pcap", fault=faults.drop("MESSAGE", 2))
    report_json = json.loads(json.dumps(report.json()))
    assert set(report_json) == {"good", "summary", "rules", "differences", "not_played", "composed", "not_said"}
    (wrong,) = [one for one in report_json["differences"] if not one["rule"]]
    assert set(wrong) == {"answer", "command", "frame", "stream", "field", "captured", "live", "rule"}
    assert wrong["captured"].startswith("MESSAGE ")
    assert wrong["live"] == ""
    assert {one["command"]: one["unexplained"] for one in report_json["summary"]}["MESSAGE"] == 1
