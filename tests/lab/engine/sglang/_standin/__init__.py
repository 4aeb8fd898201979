"""What the stand-in is made of; nothing here exists in the real SGLang."""
