"""A real browser, for the tests that look at what people see."""

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.e2e.running import Embedded

PATIENCE = 90_000
"""Milliseconds; only a failure takes so long."""


def new_context(browser: Browser, embedded: Embedded) -> BrowserContext:
    context = browser.new_context(
        base_url=embedded.state.url, viewport={"width": 1400, "height": 1000}
    )
    context.set_default_timeout(PATIENCE)
    return context


def fill_login(page: Page, user: str, password: str) -> None:
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def log_in_at(page: Page, embedded: Embedded, user: str) -> None:
    """By the form, until the pages of the product are there."""
    page.goto("/")
    fill_login(page, user, embedded.password[user])
    expect(page.get_by_role("link", name="Quality")).to_be_visible()


def open_trigger(page: Page, dag: str, field: str = "Windows from") -> Locator:
    """The Trigger dialog of a DAG, once it shows a field."""
    page.goto(f"/dags/{dag}")
    page.get_by_role("button", name="Trigger").first.click()
    dialog = page.get_by_role("dialog").filter(has_text="Single Run")
    expect(dialog.get_by_text(field)).to_be_visible()
    return dialog


def pick(page: Page, field: Locator, day: str) -> None:
    """Choose the midnight, UTC, in which a day begins."""
    field.click()
    calendar = page.locator("[data-scope=popover][data-part=content][data-state=open]")
    expect(calendar).to_contain_text("UTC")
    calendar.get_by_placeholder("YYYY/MM/DD").fill(day)
    calendar.get_by_placeholder("HH:mm").fill("00:00")
    calendar.get_by_placeholder("HH:mm").press("Escape")
    expect(calendar).to_have_count(0)
