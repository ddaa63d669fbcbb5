"""What statements are, as logs and conflicts record them."""
