"""A test whose graph failed on the device must not fail those after it."""

from collections.abc import Iterator

import pytest

from npu_common.runtime import Device


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.excinfo is not None and call.when == "call":
        Device(0).reset()
    return report
