"""A person without a mouse: everything is reached by Tab and pressed by Enter or Space."""

from playwright.sync_api import Locator, Page, expect

_FAR = 400


class Keyboard:
    """The keys of a page."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def reach(self, target: Locator) -> None:
        """Tab until it has the focus; fails where Tab never gets there."""
        expect(target).to_be_visible()
        for _ in range(_FAR):
            if target.evaluate("element => element === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        msg = f"Tab does not reach {target}."
        raise AssertionError(msg)

    def follow(self, link: str, *, exact: bool = True, within: Locator | None = None) -> None:
        """Open a link by its words."""
        place = within or self.page
        self.reach(place.get_by_role("link", name=link, exact=exact).first)
        self.page.keyboard.press("Enter")

    def press(self, button: str, within: Locator | None = None) -> None:
        """Press a button by its words."""
        place = within or self.page
        self.reach(place.get_by_role("button", name=button, exact=True).first)
        self.page.keyboard.press("Enter")

    def type(self, label: str, text: str) -> None:
        """Write into a field by its label, in place of what it holds."""
        self.reach(self.page.get_by_label(label))
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(text)

    def choose(self, label: str, value: str) -> None:
        """Choose among radio buttons by arrows: Tab reaches a group once."""
        group = self.page.locator(f"input[type=radio][name={label}]")
        self.reach(self.page.locator(f"input[type=radio][name={label}]:checked"))
        for _ in range(group.count()):
            if self.page.locator(f"input[name={label}][value={value}]").is_checked():
                return
            self.page.keyboard.press("ArrowDown")
        msg = f"The arrows do not reach {value}."
        raise AssertionError(msg)

    def keys(self, keys: str) -> None:
        """Press one after the other, as shortcuts are: once the page's script listens."""
        self.page.wait_for_load_state()
        for key in keys:
            self.page.keyboard.press(key)
