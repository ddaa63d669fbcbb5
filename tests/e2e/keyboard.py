"""A user without a mouse, who reaches everything by Tab and presses it by Enter or Space."""

from playwright.sync_api import Locator, Page, expect

_FAR = 400


class Keyboard:
    """Keyboard input to a page."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def reach(self, target: Locator) -> None:
        """Press Tab until the element has the focus; fail if Tab never reaches it."""
        expect(target).to_be_visible()
        for _ in range(_FAR):
            if target.evaluate("element => element === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        msg = f"Tab does not reach {target}."
        raise AssertionError(msg)

    def follow(self, link: str, *, exact: bool = True, within: Locator | None = None) -> None:
        """Open a link by its text."""
        place = within or self.page
        self.reach(place.get_by_role("link", name=link, exact=exact).first)
        self.page.keyboard.press("Enter")

    def press(self, button: str, within: Locator | None = None) -> None:
        """Press a button by its text."""
        place = within or self.page
        self.reach(place.get_by_role("button", name=button, exact=True).first)
        self.page.keyboard.press("Enter")

    def type(self, label: str, text: str) -> None:
        """Replace the content of a field, found by its label."""
        self.reach(self.page.get_by_label(label))
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(text)

    def choose(self, label: str, value: str) -> None:
        """Choose a radio button by the arrow keys; Tab reaches a group once."""
        group = self.page.locator(f"input[type=radio][name={label}]")
        self.reach(self.page.locator(f"input[type=radio][name={label}]:checked"))
        for _ in range(group.count()):
            if self.page.locator(f"input[name={label}][value={value}]").is_checked():
                return
            self.page.keyboard.press("ArrowDown")
        msg = f"The arrows do not reach {value}."
        raise AssertionError(msg)

    def keys(self, keys: str) -> None:
        """Press keys one after the other, as for shortcuts, after the page's script has loaded."""
        self.page.wait_for_load_state()
        for key in keys:
            self.page.keyboard.press(key)
